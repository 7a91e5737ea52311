#include "cli/read_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "model/base/characters.h"
#include "model/base/lists.h"
#include "model/base/text_search.h"
#include "model/input/presets.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t largest = 16 << 20;  // a longer file is a log or a trace, which names none
constexpr PresetKind kinds[] = {PresetKind::cluster, PresetKind::workload, PresetKind::experiment,
                                PresetKind::framework};

bool is_file(const fs::path& path) {
    std::error_code none;
    return fs::is_regular_file(path, none);
}

// Of TOML, without comments, which name where a value is from: in a checkout of this program half
// of it would be followed. A routing's section ("routing.csv#4/0") is no comment.
std::string without_comments(const std::string& text) {
    std::string kept;
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = std::string_view(text).substr(begin, end - begin);
        kept += line.starts_with('#') ? std::string_view() : line.substr(0, line.find(" #"));
        kept += '\n';
        begin = end + 1;
    }
    return kept;
}

// Words as files name others: between quotes, commas, blanks, brackets, assignments.
std::set<std::string> words_in(const fs::path& path) {
    std::error_code none;
    if (fs::file_size(path, none) > largest || none) return {};
    std::ifstream in(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (path.extension() == ".toml") text = without_comments(text);
    std::set<std::string> words;
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end =
            std::min(text.find_first_of(" \t\r\n\"'`,;=#()[]{}|<>", begin), text.size());
        if (end > begin && end - begin < 4096) words.insert(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

// "llama.toml" or "../run"; numbers and options are no names of files.
bool may_name_file(const std::string& word) {
    if (word.starts_with("--")) return false;
    const auto dot = word.rfind('.');
    return has(word, '/') ||
           (dot != std::string::npos && dot + 1 < word.size() && is_letter(word[dot + 1]));
}

// The files of a run's folder that are read; others there are of reports.
bool is_of_run(const std::string& name) {
    return name.ends_with(".toml") || name == "run.csv" || name == "routing.csv" ||
           name.starts_with("trace");
}

class FilesBehind {
public:
    FilesBehind() {
        for (const PresetKind kind : kinds)
            for (const std::string& name : preset_names(kind)) presets_[name].push_back(kind);
    }
    void add(const fs::path& path) {
        std::error_code none;
        if (fs::is_directory(path, none)) {
            for (const auto& inside : fs::directory_iterator(path, none))
                if (is_of_run(inside.path().filename().string())) add_file(inside.path());
        } else {
            add_file(path);
        }
    }
    void add_preset(const std::string& name) {
        const auto found = value_in(presets_, name);
        if (!found) return;
        for (const PresetKind kind : *found) add_file(preset_path(kind, name));
    }
    [[nodiscard]] std::vector<std::string> files() && { return std::move(files_); }

private:
    void add_file(const fs::path& path) {
        if (!is_file(path) || !known_.insert(fs::weakly_canonical(path).string()).second) return;
        files_.push_back(path.string());
        const bool table = path.extension() == ".toml";
        for (const std::string& word : words_in(path)) {
            if (table) add_preset(word);
            if (!may_name_file(word)) continue;
            // A word may begin with what a shell makes of it: $PWD/x.sh, ${dir}/x.sh.
            for (const fs::path& named : {fs::path(word), path.parent_path() / word,
                                          path.parent_path() / fs::path(word).filename()})
                if (is_file(named)) add_file(named);
        }
    }

    std::map<std::string, std::vector<PresetKind>> presets_;
    std::vector<std::string> files_;
    std::set<std::string> known_;
};

}  // namespace

std::vector<std::string> files_behind(const std::vector<std::string>& inputs) {
    FilesBehind reading;
    for (const std::string& input : inputs) {
        reading.add(input);
        reading.add_preset(input);
    }
    return std::move(reading).files();
}

}  // namespace stepcast
