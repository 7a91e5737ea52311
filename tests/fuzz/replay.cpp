// Gives every file of the corpora to its reader: `fuzz_replay CORPORA [TARGET]`. With `--mutate
// SECONDS SEED` also changed copies of them, which finds what is near; libFuzzer (scripts/fuzz.sh)
// finds what is far. A finding is named, written to `finding-..` and ends with 1.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"

using namespace stepcast;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> corpus(const fs::path& folder) {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> texts;
    for (const fs::path& path : paths) {
        std::ifstream in(path, std::ios::binary);
        texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    return texts;
}

bool holds(const FuzzTarget& target, const std::string& bytes) {
    try {
        try_bytes(target, bytes);
        return true;
    } catch (const std::exception& error) {
        const std::string name = "finding-" + std::string(target.name);
        std::ofstream(name, std::ios::binary) << bytes;
        std::printf("%s: %s (input in %s)\n", target.name.data(), error.what(), name.c_str());
        return false;
    }
}

// One to four changes: a byte, a run cut or doubled, a piece of another file, a number or a sign
// that readers mistake.
std::string changed(std::string text, const std::vector<std::string>& all,
                    std::mt19937_64& random) {
    static const std::vector<std::string> words{"0",
                                                "-1",
                                                "2147483647",
                                                "2147483648",
                                                "9223372036854775807",
                                                "1e308",
                                                "1e-320",
                                                "nan",
                                                "inf",
                                                ",",
                                                "\"",
                                                "\n",
                                                "=",
                                                "[",
                                                "]",
                                                "{",
                                                "}",
                                                ".",
                                                "#",
                                                "\r",
                                                "\t",
                                                "\xff",
                                                std::string(1, '\0'),
                                                "999999999999999999999",
                                                " ",
                                                "'",
                                                "\\u0000"};
    const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
    for (std::size_t change = below(4) + 1; change > 0; --change) {
        const std::size_t at = below(text.size() + 1),
                          length = below(std::min<std::size_t>(64, text.size() - at) + 1);
        switch (below(6)) {
            case 0:
                if (at < text.size()) text[at] = static_cast<char>(random());
                break;
            case 1: text.erase(at, length); break;
            case 2: text.insert(at, text.substr(at, length)); break;
            case 3: {
                const std::string& other = all[below(all.size())];
                const std::size_t from = below(other.size() + 1);
                text.insert(at, other.substr(from, below(256)));
                break;
            }
            case 4:
                text.replace(at, std::min<std::size_t>(length, 12), words[below(words.size())]);
                break;
            default: text.insert(at, words[below(words.size())]);
        }
    }
    return text.substr(0, 1 << 16);
}

}  // namespace

int main(int argc, char** argv) {
    double seconds = 0;
    std::uint64_t seed = 1;
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (const auto at = std::find(arguments.begin(), arguments.end(), "--mutate");
        arguments.end() - at >= 3) {
        seconds = std::atof((at + 1)->c_str());
        seed = std::strtoull((at + 2)->c_str(), nullptr, 10);
        arguments.erase(at, at + 3);
    }
    if (arguments.empty()) return 2;
    bool whole = true;
    for (const FuzzTarget& target : fuzz_targets()) {
        if (arguments.size() > 1 && arguments[1] != target.name) continue;
        const std::vector<std::string> texts = corpus(fs::path(arguments[0]) / target.name);
        long tried = 0;
        for (const std::string& text : texts) whole = holds(target, text) && whole, ++tried;
        std::mt19937_64 random(seed);
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        while (seconds > 0 && whole && std::chrono::steady_clock::now() < end)
            whole = holds(target, changed(texts[random() % texts.size()], texts, random)), ++tried;
        std::printf("%s: %ld inputs, %s\n", target.name.data(), tried,
                    whole ? "no finding" : "a finding");
    }
    return whole ? 0 : 1;
}
