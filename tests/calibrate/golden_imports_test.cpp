// Whole texts and files of `import` for the logs and profiles in tests/data and the corpora of
// tests/fuzz.
#include <fmt/format.h>

#include <map>

#include "calibrate/replay.h"
#include "import/logs/import.h"
#include "import/profiles/import_profiles.h"
#include "tests/golden_text.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

std::string files_of(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
        if (!file.is_regular_file()) continue;
        std::ostringstream text;
        text << std::ifstream(file.path(), std::ios::binary).rdbuf();
        files[std::filesystem::relative(file.path(), folder)] = text.str();
    }
    std::string all;
    for (const auto& [name, text] : files) all += "==== " + name + "\n" + text;
    return all;
}

// `import_to` imports into this folder and returns the lines for the user.
template <class Import>
std::string imported(const std::string& what, const Import& import_to) {
    const TestFolder folder;
    std::string said;
    try {
        for (const std::string& line : import_to(folder.path())) said += line + "\n";
    } catch (const ConfigError& error) {
        said = std::string("refused: ") + error.what() + "\n";
    }
    const std::string text = "######## " + what + "\n" + said + files_of(folder.path());
    return replaced(replaced(text, folder.path(), "FOLDER"), home_folder() + "/tests", "TESTS");
}

const char* const corpora = "/tests/fuzz/corpus/";

}  // namespace

TEST_CASE("golden imports: logs") {
    std::string text;
    for (const char* log :
         {"/tests/data/moe_steps_excerpt.log", "/tests/data/moe_phases_excerpt.log",
          "/tests/fuzz/corpus/log/deepspeed.log", "/tests/fuzz/corpus/log/moe_phases.log"})
        text += imported(log, [&](const std::string& to) {
            return import_to_files({.logs = {home_folder() + log},
                                    .out = to + "/out.csv",
                                    .routing_out = to + "/routing"});
        });
    check_golden("calibrate/golden/logs.txt", text);
}

TEST_CASE("golden imports: profiles and benchmarks") {
    std::string text;
    for (const std::string path :
         {"/tests/data/two_processes.sqlite", "/tests/data/traced",
          "/tests/fuzz/corpus/kineto/short", "/tests/fuzz/corpus/kineto/no_gpu",
          "/tests/fuzz/corpus/nsight/small", "/tests/fuzz/corpus/nccl_tests/all_reduce",
          "/tests/fuzz/corpus/nccl_tests/old"})
        text += imported(path, [&](const std::string& to) {
            return import_profiles({.paths = {home_folder() + path},
                                    .out = to + "/out.csv",
                                    .system = "own",
                                    .model = "a model",
                                    .context = {.op = "all_gather", .ranks = 8, .nodes = 1}});
        });
    check_golden("calibrate/golden/profiles.txt", text);
}

// In nanoseconds; for a collective start and end on every rank.
TEST_CASE("golden imports: a traced job replayed") {
    std::vector<std::string> said;
    const Replay r = replay(read_job({home_folder() + "/tests/data/traced"}, said));
    std::string text = fmt::format("{} tasks\n", r.graph.size());
    for (const TracedRank& rank : r.step.ranks)
        text += fmt::format("rank {}: span {:.0f} {:.0f}, exposed {:.0f} {:.0f}\n", rank.rank,
                            1e9 * rank.measured_span.si(), 1e9 * rank.predicted_span.si(),
                            1e9 * rank.measured_exposed.si(), 1e9 * rank.predicted_exposed.si());
    for (const KindError& k : r.step.error.kinds)
        text += fmt::format("{} {}: {:.0f} {:.0f} {:.0f}\n", k.kind, to_string(k.phase),
                            1e9 * k.predicted.si(), 1e9 * k.measured.si(), 1e9 * k.effect.si());
    for (const std::string& note : r.step.notes) text += note + "\n";
    for (TaskId task = 0; task < r.graph.size(); task += 7)
        text += fmt::format("{}: {:.0f} {:.0f}\n", r.graph.name(task), 1e9 * r.table[task].si(),
                            1e9 * r.measured[task].si());
    for (std::size_t i = 0; i < r.predicted.spans.size(); i += 11)
        text += fmt::format("{:.0f}..{:.0f}\n", 1e9 * r.predicted.spans[i].start.si(),
                            1e9 * r.predicted.spans[i].finish.si());
    check_golden("calibrate/golden/replay.txt", replaced(text, home_folder(), "HOME"));
}
