#include <algorithm>
#include <filesystem>
#include <fstream>

#include <unistd.h>
#include <catch2/catch.hpp>

#include "import/logs/import.h"
#include "import/logs/run_summary.h"
#include "import/tables/recorded.h"
#include "model/base/errors.h"
#include "model/input/presets.h"
#include "model/routing_file.h"
#include "tests/calibrate/logs.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

std::string data(const std::string& name) { return home_folder() + "/tests/data/" + name; }

// A folder of its own for every use, gone at the end.
struct Folder {
    std::filesystem::path path;
    Folder() {
        static int count = 0;
        path = std::filesystem::temp_directory_path() /
               ("stepcast-import-" + std::to_string(getpid()) + "-" + std::to_string(count++));
        std::filesystem::create_directories(path);
    }
    ~Folder() { std::filesystem::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
        std::ofstream(path / name, std::ios::binary) << text;
        return (path / name).string();
    }
};

const std::string opening =
    "[Benchmark] world_size = 2, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = "
    "8192, "
    "num_local_experts = 3, topK = 2\n";

std::string step_line(int step) {
    return "STEP-" + std::to_string(step) + ": step_time = " + std::to_string(10 + step) +
           ".5 ms, foward_time = 4.25, backward_time = 6.0, perf = 1 tflops.\n";
}
std::string steps_run(int steps, const std::string& closing =
                                     "fast_moe 4 [Summary] Average synchronized step_time = 1 ms, "
                                     "forward = 2 , backward = 3 .\n") {
    std::string text = opening;
    for (int s = 0; s < steps; ++s) text += step_line(s);
    return text + closing;
}

// Rank 0: 10 blocks, 3 remote (0.3); rank 1: 8 blocks, 2 remote (0.25). AG takes 1 and 2 ms
// forward, 3 and 4 backward.
std::string phases_step(int step, bool torn = false) {
    const std::string waits = torn ? "0 wait time: 1.5\n1 wait time: 2.5\n8\n10\n"
                                   : "0 wait time: 1.5\n10\n1 wait time: 2.5\n8\n";
    return "start\nblock_info 8 2\nstart\nblock_info 10 3\n" + waits +
           "AG, 0.250000, 2.0, 0 \nAG, 0.300000, 1.0, 0 \nforward:  7\nforward:  9\nAG, 0.300000, "
           "3.0, 0 \nAG, "
           "0.250000, 4.0, 0 \n" +
           step_line(step);
}
std::string phases_run(int steps, int torn_from = 1000) {
    std::string text = "    (_moe_layer): MixMOETransformerMLP(\n" + opening;
    for (int s = 0; s < steps; ++s) text += phases_step(s, s >= torn_from);
    return text + "[Summary] Average synchronized step_time = 1 ms, forward = 2, backward = 3.\n";
}

std::vector<double> values(const ReadRun& run, const std::string& phase, int rank) {
    std::vector<double> found;
    for (const Sample& s : run.samples) {
        if (s.phase == phase && s.rank == rank) found.push_back(s.value);
    }
    return found;
}

}  // namespace

TEST_CASE("an excerpt of a step log gives its run, its system and every step") {
    const ReadLog result = import_log(data("moe_steps_excerpt.log"));
    REQUIRE(result.format == LogFormat::moe_steps);
    REQUIRE(result.runs.size() == 1);
    const ReadRun& run = result.runs[0];
    CHECK(run.run_id == "moe_steps_excerpt-1-fast_moe-4");
    CHECK(run.system == "fast_moe");
    CHECK(run.experts == 16);  // 4 ranks x 4
    CHECK(run.ranks == 4);
    CHECK(run.steps == 15);
    CHECK(run.samples.size() == 45);
    CHECK(run.samples[0].model == "moe_layer-1024x4096-fp16-8192-top2");
    CHECK(result.lines == LineCounts{17, 1, 0});  // benchmark, 15 steps, summary; a blank line
}

TEST_CASE("an excerpt of a phase log gives the kernels of every rank") {
    const ReadLog result = import_log(data("moe_phases_excerpt.log"));
    REQUIRE(result.format == LogFormat::moe_phases);
    REQUIRE(result.runs.size() == 1);
    const ReadRun& run = result.runs[0];
    CHECK(run.system == "mix_moe");
    CHECK(result.lines.unknown == 0);
    // Rank 3 computes 244 blocks, 41 remote: ratio 0.168033. Its first AG of step 1 reads 1.790976,
    // its second 1.811456.
    CHECK(values(run, "AG.forward", 3) == std::vector<double>{1.802240e-3, 1.790976e-3});
    CHECK(values(run, "AG.backward", 3) == std::vector<double>{1.803264e-3, 1.811456e-3});
    CHECK(values(run, "process_time.c", 0).at(1) == Approx(0.13017654418945312e-3));
    CHECK(values(run, "wait_time", 0) == std::vector<double>{3.197e-3, 2.8e-3});
    CHECK(values(run, "weight_grad", -1).size() == 8);
    REQUIRE(run.routing);
    CHECK(run.routing->totals ==
          std::vector<BlockTotals>{{288, 77}, {264, 58}, {268, 60}, {244, 41}});
}

TEST_CASE(
    "a step whose lines are torn apart borrows the assignment of steps with the same blocks") {
    const Folder folder;
    const ReadRun run = import_log(folder.file("a.log", phases_run(12, 6))).runs.at(0);
    CHECK(values(run, "AG.forward", 0) == std::vector<double>(12, 1.0e-3));
    CHECK(values(run, "AG.backward", 1) == std::vector<double>(12, 4.0e-3));
    CHECK(run.notes.empty());
}

TEST_CASE("when no step tells the ranks apart, kernels are left out and said, not guessed") {
    const Folder folder;
    const ReadRun run = import_log(folder.file("a.log", phases_run(12, 0))).runs.at(0);
    CHECK(values(run, "AG.forward", 0).empty());
    CHECK_FALSE(run.routing);
    REQUIRE(run.notes.size() == 2);
    CHECK_THAT(run.notes[0], Contains("48 AG and GA lines left out"));
}

TEST_CASE("line ends, junk bytes and a line of a megabyte do not disturb the import") {
    const Folder folder;
    const ReadLog plain = import_log(folder.file("a.log", steps_run(12)));
    std::string text;
    for (const char c : steps_run(12)) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
    text.insert(text.find("STEP-5"), std::string(1 << 20, 'x') + "\n\xff\xfe\n10 %|#\r");
    const Folder other;
    const ReadLog rough = import_log(other.file("a.log", text));
    CHECK(rough.runs.at(0).samples == plain.runs.at(0).samples);
    CHECK(rough.lines.unknown == 3);
    // the progress bar ended no line
    CHECK(rough.runs.at(0).last_line == plain.runs.at(0).last_line + 2);
}

TEST_CASE("a log that breaks off or does not fit is refused with its line") {
    struct Wrong {
        std::string text, format, message;
    };
    const std::string summary =
        "fast_moe 4 [Summary] Average synchronized step_time = 1 ms, forward = 2 , backward = 3 "
        ".\n";
    const std::vector<Wrong> table{
        {steps_run(3, ""), "auto",
         "a.log:1: the run that begins here has no [Summary] line (the log ends after 3 of its "
         "steps)"},
        {steps_run(3, "") + steps_run(3), "auto",
         "a.log:5: a new run begins, but the run begun at line 1 has no [Summary] line"},
        {opening + step_line(0) + step_line(2) + summary, "auto",
         "a.log:3: \"STEP-2\": expected STEP-1"},
        {opening + "STEP-0: step_time = 10.5 ms, foward_time = 4.\n", "auto",
         "a.log:2: \"STEP-0: step_time = 10.5 ms, foward_time = 4.\" has no \"backward_time = X\""},
        {opening + "STEP-0: step_time = -1 ms, foward_time = 4, backward_time = 2\n", "auto",
         "has no \"step_time = X\" with X above 0"},
        {opening + summary, "auto", "a.log:2: the run begun at line 1 has no STEP line"},
        {steps_run(
             2, "[Summary] Average synchronized step_time = 1 ms, forward = 2 , backward = 3 .\n"),
         "auto", "a.log:4: nothing says which system"},
        {steps_run(2, "fast_moe 4 [Summary] Average synchronized step_time = 1 ms, forw\n"), "auto",
         "a.log:4: [Summary] line has no \"forward = X\""},
        {step_line(7) + steps_run(2), "moe-steps", "a.log:1: a STEP line outside a run"},
        {steps_run(2), "moe-phases",
         "a.log:2: step 0 has no block_info, AG or GA line before it; without the phases of ranks "
         "the format is "
         "moe-steps"},
        {"block_info 8 2\n" + phases_run(2), "moe-phases",
         "a.log:1: a rank's phase line outside a run"},
        {"cuda:0 process time:1, a: 2, b: 3, c: 4, d: 5\n" + phases_run(2), "moe-phases",
         "a.log:1: a rank's phase line outside a run"},
        {"AG, 0.25, 2.0, 0\n" + phases_run(2), "moe-phases",
         "a.log:1: a rank's phase line outside a run"},
        {"0 wait time: 1.5\n" + phases_run(2), "moe-phases",
         "a.log:1: a rank's phase line outside a run"},
        {"forward: 7\n" + phases_run(2), "moe-phases",
         "a.log:1: a rank's phase line outside a run"},
        {opening + "block_info 8 9\n", "moe-phases", "a.log:2: block_info 8 9: expected"},
        {"epoch 1 loss 2\n", "auto",
         "a.log: not a log that stepcast recognises: looked through 1 lines"},
        {"epoch 1 loss 2\n", "moe-steps", "a.log:1: the log ends without a run"},
        {"", "auto", "a.log: is empty"},
    };
    for (const Wrong& wrong : table) {
        const Folder folder;
        const std::string path = folder.file("a.log", wrong.text);
        INFO(wrong.message);
        CHECK_THROWS_WITH(import_log(path, parse_name<LogFormat>(wrong.format)),
                          Contains(wrong.message));
        CHECK_THROWS_AS(import_log(path, parse_name<LogFormat>(wrong.format)), ConfigError);
    }
    CHECK_THROWS_WITH(import_log("/nowhere/a.log"),
                      Contains("/nowhere/a.log: cannot be read (No such file or directory)"));
    CHECK_THROWS_WITH(parse_name<LogFormat>("moe-step"), Contains("moe-steps"));
}

TEST_CASE("an import writes measurements and routing that read back, and after a refusal nothing") {
    const Folder folder;
    const std::string good = folder.file("good.log", phases_run(20)),
                      bad = folder.file("bad.log", steps_run(3, ""));
    const std::string out = (folder.path / "m.csv").string(),
                      routing = (folder.path / "routing").string();
    CHECK_THROWS_AS(import_to_files({{good, bad}, LogFormat::automatic, out, routing}),
                    ConfigError);
    CHECK_FALSE(std::filesystem::exists(out));
    CHECK_FALSE(std::filesystem::exists(routing));

    const std::vector<std::string> report =
        import_to_files({{good}, LogFormat::automatic, out, routing});
    CHECK_THAT(
        report.at(0),
        Contains(
            "moe-phases, 1 runs; lines: 263 used, 40 skipped, 0 unknown"));  // 13 and 2 "start" a
                                                                             // step; head, dump,
                                                                             // summary
    const Routing read = read_routing(routing + "/mix_moe_6.csv");
    CHECK(read.totals == std::vector<BlockTotals>{{10, 3}, {8, 2}});
    const std::vector<Sample> rows = read_measurements(out);
    const auto medians =
        std::count_if(rows.begin(), rows.end(), [](const Sample& s) { return s.step == -1; });
    // step, forward, backward; wait_time of 2 ranks; AG forward and backward of 2; layer_forward
    // least, median, greatest. And blocks and remote blocks of 2 ranks.
    CHECK(medians == 3 + 2 + 4 + 3 + 4);
    CHECK(recorded_routing(rows) == read);
    CHECK_THROWS_WITH(import_to_files({{good, good}, LogFormat::automatic, out, ""}),
                      Contains("comes from two logs"));
}

TEST_CASE("runs of one system and size with different routings get a file each") {
    const Folder folder;
    std::string other = phases_run(12);
    for (std::size_t at; (at = other.find("block_info 8 2")) != std::string::npos;)
        other.replace(at, 14, "block_info 8 1");
    const std::string log = folder.file("a.log", phases_run(12) + phases_run(12) + other);
    const std::vector<std::string> report = import_to_files(
        {{log}, LogFormat::automatic, (folder.path / "m.csv").string(), folder.path.string()});
    CHECK(read_routing((folder.path / "mix_moe_6.csv").string()).totals.at(1) == BlockTotals{8, 2});
    CHECK(read_routing((folder.path / "mix_moe_6-2.csv").string()).totals.at(1) ==
          BlockTotals{8, 1});
    CHECK_FALSE(std::filesystem::exists(folder.path / "mix_moe_6-3.csv"));
}

TEST_CASE("what is imported without a file is what a file would hold") {
    const Folder folder;
    ImportRequest request{.logs = {folder.file("a.log", phases_run(12))},
                          .out = (folder.path / "m.csv").string()};
    std::vector<std::string> report = import_to_files(request);
    report.pop_back();  // what it says of the file
    const std::vector<Sample> written = read_measurements(request.out);
    request.out = (folder.path / "none.csv").string();
    const ImportedSamples kept = import_samples(request);
    CHECK_FALSE(written.empty());
    CHECK(kept.rows == written);
    CHECK(kept.report == report);
    CHECK_FALSE(std::filesystem::exists(request.out));
}

TEST_CASE("a layer's shape survives in the model name") {
    const LayerShape shape{1024, 4096, 8192, 2, "fp16"};
    CHECK(parse_model_name(model_name(shape)) == shape);
    CHECK_FALSE(parse_model_name("gpt2"));
    CHECK_FALSE(parse_model_name("moe_layer-1024x4096-fp16-8192-top2x"));
}
