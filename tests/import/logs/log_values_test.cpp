// Every value that a dialect takes from a log, and what it leaves alone, written out.
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "import/logs/line_pattern.h"
#include "import/logs/log_lines.h"
#include "import/logs/run_summary.h"
#include "import/logs/sample_record.h"
#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/records/measurements.h"
#include "tests/calibrate/logs.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Contains;

namespace {

std::string values_of(const ReadRun& run) {
    std::string text;
    for (const Sample& s : run.samples)
        text += fmt::format("{} {} {} {:.12g} {}\n", s.phase, s.rank, s.step, s.value, s.unit);
    return text;
}

ReadLog imported(const std::string& text, LogFormat format = LogFormat::automatic) {
    const LogFolder folder;
    return import_log(folder.file("a.log", text), format);
}

std::string refusal(const std::string& text, LogFormat format) {
    const LogFolder folder;
    return complaint([&] { import_log(folder.file("a.log", text), format); }, folder.path.string());
}

std::string at(const std::string& clock) { return "[2024-02-20 " + clock + "] [Rank 0] "; }

}  // namespace

// Binary gigabytes, of which the peaks before the first step are of the model's making and no
// step's; the count of parameters once, though every rank says it; the samples a second are of the
// step before.
TEST_CASE("DeepSpeed's log tells memory, parameters and rates beside its steps") {
    const ReadLog result = imported(
        at("09:00:00,000") + "[utils.py:821:see_memory_usage] Before Init 2\n" +
        at("09:00:00,000") +
        "[utils.py:822:see_memory_usage] MA 0.75 GB  Max_MA 1 GB  CA 0.9 GB  Max_CA 2 GB \n" +
        at("09:00:00,000") + "[utils.py:829:see_memory_usage] CPU Virtual Memory:  used = 7 GB\n" +
        at("09:00:00,000") + "number of total params: 1500\n" + at("09:00:00,000") +
        "number of total params: 1500\n" + at("09:00:01,500") +
        "time (ms) | forward: 11.00 | backward: 22.00 | step: 3.00\n" + at("09:00:01,600") +
        "epoch=0/micro_step=1/global_step=1, CurrSamplesPerSec=17.5, MemAllocated=1GB\n" +
        at("09:00:03,250") + "time (ms) | forward: 13.00 | backward: 26.00 | step: 5.00\n" +
        at("09:00:03,300") + "CurrSamplesPerSec=19.5\n" + "Batch (t): 1.25, 1,057.5/s\n" +
        "no timers here\nBatch (t): n/a\nCurrSamplesPerSec=n/a\nworld_size .... n/a\nnumber of "
        "total params: many\n" +
        "Loaded something else\n");
    REQUIRE(result.runs.size() == 1);
    CHECK(values_of(result.runs[0]) ==
          "memory.before_init_2 -1 -1 805306368 B\nparameters -1 -1 1500 1\n"
          "forward -1 1 0.011 s\nbackward_and_sync -1 1 0.022 s\noptimizer -1 1 0.003 "
          "s\nsamples_per_s -1 1 17.5 1\n"
          "forward -1 2 0.013 s\nbackward_and_sync -1 2 0.026 s\noptimizer -1 2 0.005 s\nstep -1 2 "
          "1.75 s\nsamples_per_s -1 2 19.5 1\n"
          "mean_since_last.batch -1 2 1.25 s\nsamples_per_s -1 2 1057.5 1\n");
    CHECK(result.lines == LineCounts{8, 2, 6});
    CHECK(result.runs[0].first_line == 6);
    CHECK(result.runs[0].last_line == 8);
    CHECK(result.runs[0].notes.empty());
}

// A breakdown of memory before the first step and after it (2 and 3 GiB, 4 held), and the rate's
// own line (2.5 GiB); the most counts.
TEST_CASE("DeepSpeed's peaks of memory are those of steps") {
    const auto memory = [](const char* when, const char* values) {
        return at(when) + "[utils.py:829:see_memory_usage] Engine after step\n" + at(when) +
               "[utils.py:830:see_memory_usage] " + values + "\n";
    };
    const auto step = [](const char* when) {
        return at(when) + "time (ms) | forward: 11.00 | backward: 22.00 | step: 3.00\n";
    };
    const ReadLog result = imported(
        memory("09:00:00,000", "MA 1 GB  Max_MA 9 GB  CA 9 GB  Max_CA 9 GB") +
        step("09:00:01,500") +
        memory("09:00:01,600", "MA 1 GB  Max_MA 2 GB  CA 3 GB  Max_CA 3 GB") +
        step("09:00:03,250") +
        memory("09:00:03,300", "MA 1 GB  Max_MA 3 GB  CA 3 GB  Max_CA 4 GB") + at("09:00:03,400") +
        "epoch=0/micro_step=2/global_step=2, CurrSamplesPerSec=17.5, MemAllocated=1.0GB, "
        "MaxMemAllocated=2.5GB\n");
    REQUIRE(result.runs.size() == 1);
    const std::string values = values_of(result.runs[0]);
    CHECK_THAT(values, !Contains("9663676416"));  // 9 GiB
    CHECK_THAT(values, Contains("memory -1 -1 3221225472 B"));
    CHECK_THAT(values, Contains("memory_reserved -1 -1 4294967296 B"));
    CHECK_THAT(values, Contains("memory -1 -1 2684354560 B"));
}

// Rank 1 prints its own lines; its own clock counts. A second start of the program is another run.
TEST_CASE("DeepSpeed's ranks have clocks of their own, and a new start is a new run") {
    const std::string other = "[2024-02-20 09:00:02,000] [Rank 1] ",
                      step = "time (ms) | forward: 11.00 | backward: 22.00 | step: 3.00\n";
    const ReadLog result = imported(
        "rank=2 time (ms) | optimizer_step: 7.00\n" + at("09:00:01,000") + step + other + step +
        at("09:00:04,000") + step + "[2024-02-20 09:00:07,500] [Rank 1] " + step +
        "[2024-02-20 09:00:08,000] DeepSpeed info: version=0.8.2\n" +
        "Loaded GPT-X model config\n" + "rank=0 " + step + "[2024-02-20T09:00:01.000] " + step);
    REQUIRE(result.runs.size() == 2);
    CHECK(values_of(result.runs[0]) ==
          "optimizer_step 2 1 0.007 s\nforward -1 1 0.011 s\nbackward_and_sync -1 1 0.022 "
          "s\noptimizer -1 1 0.003 s\n"
          "forward 1 1 0.011 s\nbackward_and_sync 1 1 0.022 s\noptimizer 1 1 0.003 s\n"
          "forward -1 2 0.011 s\nbackward_and_sync -1 2 0.022 s\noptimizer -1 2 0.003 s\nstep -1 2 "
          "3 s\n"
          "forward 1 2 0.011 s\nbackward_and_sync 1 2 0.022 s\noptimizer 1 2 0.003 s\nstep 1 2 5.5 "
          "s\n");
    CHECK(result.runs[0].steps == 2);
    CHECK(result.runs[1].run_id == "a-2-deepspeed-gpt-x");
    CHECK(result.runs[1].steps == 2);
    REQUIRE(result.runs[1].notes.size() == 1);
    CHECK_THAT(result.runs[1].notes[0], Contains("2 of its 2 steps have no time stamp"));
    CHECK_THAT(refusal("rank=30001 " + step, LogFormat::deepspeed),
               Contains("a.log:1: rank 30001 is absurd; expected at most 30000"));
    CHECK(imported("rank=30000 " + step + "rank=0 " + step).runs.at(0).samples.size() == 6);
    // What stands before the first step is of its run.
    const ReadRun early =
        imported(
            "Loaded GPT-X model config\nDeepSpeed info: version=0.8.2\n  world_size "
            "................... 6\nLoaded GPT-Y model config\nDeepSpeed info: version=0.8.2\n" +
            step)
            .runs.at(0);
    CHECK((early.model == "gpt-y" && early.steps == 1));
    CHECK(imported("world_size ................... 6\nDeepSpeed info: version=0.8.2\n" + step)
              .runs.at(0)
              .ranks == 6);
    CHECK(imported("world_size ................... 6\nLoaded GPT-X model config\n" + step)
              .runs.at(0)
              .ranks == 6);
    // Every line that is cut is counted, three are told.
    std::string cut = step;
    for (int i = 0; i < 5; ++i) cut += "time (ms) | forward: 11.00 | backw\n";
    const ReadRun run = imported(cut).runs.at(0);
    REQUIRE(run.notes.size() == 5);
    CHECK(run.notes[2].starts_with(run.notes[2].substr(0, run.notes[2].find("a.log:4"))));
    CHECK_THAT(run.notes[2], Contains("a.log:4: "));
    CHECK(run.notes[4] == "5 timer lines in all are cut or not understood");
    CHECK(imported("time (ms) | forward: -1.00 | step: 2\ntime (ms) | forward: 1\n")
              .runs.at(0)
              .notes.size() == 2);
    CHECK(imported("  time (ms) | forward: 1\n(dump OVERFLOW!\n OVERFLOW!\n")
              .runs.at(0)
              .samples.size() == 1);
}

// Unknown classes go by their lower-case name and the count of their parameters. Ranks are those of
// the headers where the log does not say.
TEST_CASE("a pipeline's log names its model and leaves lines out that nothing owns") {
    const auto run = [](const std::string& text) {
        const LogFolder folder;
        return import_log(
                   folder.file(
                       "a.log",
                       text + "[rank:0 stage:0] x forward time - step 1\n  layer[0]: total=2.5ms, "
                              "ops=3, avg/op=1ms\n[rank:2 stage:1] x forward time - step 1\n"
                              "  layer[1]: total=3.5ms, ops=3, avg/op=1ms\n| epoch   1 |     1/  9 "
                              "batches | lr 0.0 | ms/batch 7.5 | loss\n"))
            .runs.at(0);
    };
    CHECK(
        run(">> model class name: OtherForCausalLM\n> Total parameters in model: 1,500\n").model ==
        "other-1500");
    CHECK(run(">> model class name: OtherForCausalLM\n").model == "other");
    CHECK(run(">> model class name: LlamaForCausalLM\n> Total parameters in model: 8,030,261,248\n")
              .model == "llama-3-8b");
    CHECK(run(">> model class name: LlamaForCausalLM\n> Total parameters in model: 8,030,261,249\n")
              .model == "llama-8030261249");
    CHECK(run(">> model class name: GPT2LMHeadModel\n> Total parameters in model: 6,738,415,616\n")
              .model == "gpt2lmheadmodel-6738415616");
    CHECK(run("").ranks == 3);
    CHECK(run("> World size: 8\n").ranks == 8);
    CHECK(values_of(run("")) ==
          "layer0.forward 0 1 0.0025 s\ntimed.forward 0 1 0.0025 s\nlayer1.forward 2 1 0.0035 "
          "s\ntimed.forward 2 1 0.0035 s\nstep -1 1 0.0075 s\n");
    CHECK(run("").first_line == 1);
    CHECK(run("").last_line == 5);
    CHECK(run("").steps == 1);
    // A layer line before any header belongs to nobody.
    const ReadRun orphan = run(
        "  layer[7]: total=2.5ms, ops=9, avg/op=1ms\n  layer[8]: total=2.5ms, ops=9, avg/op=1ms\n");
    CHECK(orphan.notes ==
          std::vector<std::string>{"2 layer lines left out: nothing says whose they are"});
    CHECK(orphan.samples.size() == 5);
    // A second run of one rank beside the first of three: its ranks, its owners and its steps are
    // its own.
    const LogFolder folder;
    const ReadLog two = import_log(folder.file(
        "a.log",
        "[rank:2 stage:1] x forward time - step 9\n  layer[1]: total=3.5ms, ops=3, avg/op=1ms\n| "
        "epoch   1 |     9/  9 batches | lr 0.0 | ms/batch 7.5 | loss\n"
        "> Total parameters in model: 1,500\n  layer[5]: total=1.5ms, ops=7, avg/op=1ms\n"
        "[rank:0 stage:0] x forward time - step 1\n  layer[0]: total=2.5ms, ops=3, avg/op=1ms\n| "
        "epoch   1 |     1/  9 batches | lr 0.0 | ms/batch 8.5 | loss\n"));
    REQUIRE(two.runs.size() == 2);
    CHECK(two.runs[0].ranks == 3);
    CHECK(two.runs[1].ranks == 1);
    CHECK(two.runs[1].run_id != two.runs[0].run_id);
    CHECK(two.runs[1].notes ==
          std::vector<std::string>{"1 layer lines left out: nothing says whose they are"});
    CHECK(values_of(two.runs[1]) ==
          "layer0.forward 0 1 0.0025 s\ntimed.forward 0 1 0.0025 s\nstep -1 1 0.0085 s\n");
}

TEST_CASE("a pipeline's lines that are cut or strange are not taken") {
    const std::string whole =
        "[rank:0 stage:0] x forward time - step 1\n  layer[0]: total=2.5ms, ops=3, avg/op=1ms\n";
    const auto unknown = [&](const std::string& line) {
        const ReadLog result = imported(whole + line + "\n", LogFormat::opt_prime);
        CHECK(result.runs.at(0).samples.size() == 2);
        return std::tuple(result.lines.used, result.lines.skipped, result.lines.unknown);
    };
    for (const char* line :
         {"[rank:-1 stage:0] x forward time - step 1", "[rank:x", "[rank:0 stage:0] x forward time",
          "[rank:0 stage:0] x forward time - step -1", "[rank:0 stage:0] - step 2"}) {
        CAPTURE(line);
        CHECK(unknown(line) == std::tuple(2L, 1L, 0L));  // "[rank:" is known to be of a block
    }
    for (const char* line :
         {"  layer[0: total=2.5ms", "  layer[0]: total=-2.5ms, ops=3, avg/op=1ms",
          "  layer[0]: total=2.5ms, op", "  layer[0]: total=2.5ms, ops=x",
          "  layer[0]: total=2.5ms, ops=3, avg/op=x",
          "| epoch   1 |     1/  9 batches | lr 0.0 | ms/batch 0 | loss",
          "| epoch   1 |     x/  9 batches | ms/batch 7", "| epoch 1",
          "| epoch 1 | 1/ 9 | ms/batch -7", "other"}) {
        CAPTURE(line);
        CHECK(unknown(line) == std::tuple(2L, 0L, 1L));
    }
    for (const char* line : {"> other", "-- node.op: x", "--- key: x", "n.op: x", "***** x",
                             "### x", "# rank x", "--- x", "stage2rank x", "SEQUENTIAL mode",
                             "GPU mode", "special_nodes: x", "rank: 1", "length: 3", "=== x", ""}) {
        CAPTURE(line);
        CHECK(unknown(line) == std::tuple(2L, 1L, 0L));
    }
    CHECK_THAT(refusal("> World size: 2\n", LogFormat::opt_prime),
               Contains("a.log:1: the log ends without a step"));
    CHECK_THAT(
        refusal("[rank:2147483647 stage:0] forward time - step 1\n", LogFormat::opt_prime),
        Contains(
            "a.log:1: rank 2147483647 in step 1 is absurd; expected at most 30000 and 1000000000"));
    CHECK_THAT(refusal("[rank:0 stage:0] forward time - step 2147483647\n", LogFormat::opt_prime),
               Contains("a.log:1: rank 0 in step 2147483647 is absurd"));
    // The first ms/batch that is not of the first step spans those before it.
    const std::string batch = "| epoch   1 |     5/  9 batches | ms/batch 7.5 | loss\n";
    const ReadRun late =
        imported("[rank:0 stage:0] x forward time - step 5\n" + batch + batch).runs.at(0);
    CHECK(values_of(late) == "step -1 6 0.0075 s\n");
    CHECK(late.notes.at(0).find("the first ms/batch spans the steps up to 5") != std::string::npos);
    CHECK(values_of(
              imported("[rank:0 stage:0] x forward time - step 1\n" + batch + batch).runs.at(0)) ==
          "step -1 1 0.0075 s\nstep -1 2 0.0075 s\n");
    // Eight steps that tell too few layers are named, no more.
    std::string partial =
        "[rank:0 stage:0] x forward time - step 1\n  layer[0]: total=1ms, ops=3, avg/op=1ms\n  "
        "layer[1]: total=1ms, ops=3, avg/op=1ms\n";
    for (int s = 2; s < 13; ++s)
        partial += fmt::format(
            "[rank:0 stage:0] x forward time - step {}\n  layer[0]: total=1ms, ops=3, avg/op=1ms\n",
            s);
    const ReadRun told = imported(partial).runs.at(0);
    CHECK(told.notes.size() == 8);
    CHECK_THAT(told.notes[0],
               Contains("rank 0 names 1 of its 2 layers in step 2; no sum of that step"));
}

// Numbers with a step: ranks above 0 are kept, a step or rank that is no count is refused.
TEST_CASE("a pattern's ranks and steps are counts, its rates steps where tokens are stated") {
    const LogFolder folder;
    ImportRequest options;
    options.pattern = folder.file(
        "p.toml",
        "system = \"mine\"\nmodel = \"m\"\nranks = 3\ntokens = 300\nmean_since_last = true\nlines "
        "= [\"r {rank:1} s {#} tps {rate:tokens/s} mem {memory:KiB} x {x:1}\", \"t {t:us}\"]\n");
    const auto run = [&](const std::string& text) {
        return import_log(folder.file("a.log", text), options);
    };
    const ReadLog result =
        run("t 5\nr 0 s 7 tps 100 mem 2 x -3\nt 5\nr 2 s 7 tps 150 mem 3 x 4\nr 0 s 9 tps 0 mem 2 "
            "x 1\nr 0 s 10 tps 600 mem 2 x 1\nr 0 s 10 tps 600 mem 2 x 1\n");
    REQUIRE(result.runs.size() == 1);
    const ReadRun& one = result.runs[0];
    CHECK(values_of(one) ==
          "rate -1 7 100 1\nstep -1 7 3 s\nmemory -1 7 2048 B\nx -1 7 -3 1\nt -1 7 5e-06 s\nrate 2 "
          "7 150 1\nstep 2 7 2 s\nmemory 2 7 3072 B\nx 2 7 4 1\n"
          "rate -1 9 0 1\nmemory -1 9 2048 B\nx -1 9 1 1\nrate -1 10 600 1\nstep -1 10 0.5 "
          "s\nmemory -1 10 2048 B\nx -1 10 1 1\nrate -1 10 600 1\nstep -1 10 0.5 s\nmemory -1 10 "
          "2048 B\nx -1 10 1 1\n");
    CHECK(one.steps == 3);
    CHECK((one.first_line == 2 && one.last_line == 7 && one.ranks == 3));
    CHECK(one.notes ==
          std::vector<std::string>{"1 of its 3 lines are means over the steps since the line "
                                   "before, not samples: their spread is too small for noise"});
    CHECK(result.lines == LineCounts{6, 1, 0});
    const std::string sane = "; is the pattern the right one?";
    const auto refused = [&](const std::string& text) {
        return complaint([&] { run(text); }, folder.path.string());
    };
    CHECK(refused("r 0 s 1.5 tps 1 mem 1 x 1\n") == "a.log:1: step 1.5 is no count" + sane);
    CHECK(refused("r 0 s -1 tps 1 mem 1 x 1\n") == "a.log:1: step -1 is no count" + sane);
    CHECK(refused("r 1.5 s 1 tps 1 mem 1 x 1\n") == "a.log:1: rank 1.5 is no count" + sane);
    CHECK(refused("r 0 s 2000000000 tps 1 mem 1 x 1\n") ==
          "a.log:1: step 2000000000 is no count" + sane);
    CHECK(refused("r 0 s 1 tps -1 mem 1 x 1\n") ==
          "a.log:1: rate is -1; expected 0 or more" + sane);
    CHECK_THAT(refused("r 0 s 1 tps 1 mem 1 x 1\nt 5K\n"),
               Catch::StartsWith("a.log:2: ") && Contains("is cut by {t:us}"));
}

TEST_CASE("units of a pattern are those of the log") {
    const auto value = [](const char* unit, const char* text) {
        std::vector<double> values;
        REQUIRE(
            LinePattern(fmt::format("v {{v:{}}}", unit)).match(fmt::format("v {}", text), values));
        return values.at(0);
    };
    CHECK(value("us", "7") == 7e-6);
    CHECK(value("ms", "7") == 7e-3);
    CHECK(value("s", "7") == 7);
    CHECK(value("B", "7") == 7);
    CHECK(value("KB", "7") == 7e3);
    CHECK(value("MB", "7") == 7e6);
    CHECK(value("GB", "7") == 7e9);
    CHECK(value("KiB", "7") == 7168);
    CHECK(value("MiB", "7") == 7340032);
    CHECK(value("GiB", "7") == 7516192768);
    CHECK(value("1", "7") == 7);
    for (const auto& [text, number] :
         {std::pair{"7", 7.0}, {"7k", 7e3}, {"7K", 7e3}, {"7M", 7e6}, {"7G", 7e9}, {"7T", 7e12}})
        CHECK(value("1*", text) == number);
    std::vector<double> values;
    // What follows a number as literal text is no cut, even a unit's name.
    CHECK(LinePattern("a {x:s} ms b {y:1}").match("a 3 ms b 4", values));
    CHECK(values == std::vector<double>{3, 4});
    CHECK_THROWS_AS(LinePattern("a {x:s}{}b {y:1}").match("a 3 ms b 4", values), ConfigError);
    CHECK_THROWS_AS(LinePattern("a {x:1*}").match("a 3KB", values), ConfigError);
    CHECK_THROWS_AS(LinePattern("a {x:1}").match("a 3.5.7", values), ConfigError);
    CHECK(LinePattern("a {x:ms}").match("a 3ms", values));
    CHECK(LinePattern("a {x:1}").match("a 3.", values));
    CHECK(LinePattern("a {x:1}").match("a 3, b", values));
}

TEST_CASE("a pattern file's entries have their kinds") {
    const LogFolder folder;
    const auto wrong = [&](const std::string& text) {
        return complaint(
            [&] { read_log_pattern(folder.file("p.toml", "lines = [\"a {#}\"]\n" + text)); },
            folder.path.string());
    };
    CHECK(wrong("ranks = 1048576\n").empty());
    CHECK(wrong("ranks = 1048577\n") ==
          "p.toml:2:9: ranks: 1048577 is out of range; expected 0 to 1048576");
    CHECK(wrong("ranks = -1\n") == "p.toml:2:9: ranks: -1 is out of range; expected 0 to 1048576");
    CHECK(wrong("ranks = \"two\"\n") ==
          "p.toml:2:9: ranks: \"two\" is not an integer; expected an integer, for example 4");
    CHECK(wrong("system = 3\n") == "p.toml:2:10: system: 3 is not text; expected text in quotes");
    CHECK(wrong("tokens = 2.5\n").empty());
    CHECK_FALSE(wrong("mean_since_last = 3\n").empty());
    const LogPattern p =
        read_log_pattern(folder.file("mine.toml",
                                     "lines = [\"a {#}\"]\nname = \"n\"\nrecognise = \"r\"\nmodel "
                                     "= \"m\"\nranks = 7\ntokens = 2.5\nmean_since_last = true\n"));
    CHECK((p.name == "n" && p.recognise == std::vector<std::string>{"r"} && p.system == "n" &&
           p.model == "m" && p.ranks == 7 && p.tokens == 2.5 && p.mean_since_last));
    CHECK(read_log_pattern(folder.file("mine.toml", "lines = [\"a {#}\"]\n")).system == "mine");
    CHECK_THAT(complaint([&] { read_log_pattern(folder.file("p.toml", "lines = \"a {#}\"\n")); }),
               Contains("lines: found \"a {#}\"; expected an array of texts"));
    CHECK_THAT(complaint([&] { read_log_pattern(folder.file("p.toml", "lines = [3]\n")); }),
               Contains("lines: expected an array of texts"));
}

// "1,650" is grouped; "12,34", "1234,567" and "1,6501" are not.
TEST_CASE("a cursor reads numbers as they stand") {
    const auto grouped = [](const char* text) {
        LineCursor c(text);
        const auto value = c.grouped_number();
        return value ? fmt::format("{} '{}'", *value, c.rest()) : "none";
    };
    CHECK(grouped(" 1,650 x") == "1650 ' x'");
    CHECK(grouped("1,650,003.25,1") == "1650003.25 ',1'");
    CHECK(grouped("12,34") == "12 ',34'");
    CHECK(grouped("1234,567") == "1234 ',567'");
    CHECK(grouped("1,6501") == "1 ',6501'");
    CHECK(grouped("-1,650") == "-1 ',650'");
    CHECK(grouped(",650") == "none");
    for (const char* cut : {"1,x34", "1,2x4", "1,23x", "1,", "1,2", "1,23"})
        CHECK(grouped(cut) == fmt::format("1 '{}'", cut + 1));
    CHECK(grouped("1,2345,678") == "1 ',2345,678'");
    CHECK(grouped("1,234.5") == "1234.5 ''");
    CHECK(grouped("123") == "123 ''");
    CHECK(grouped("123,456") == "123456 ''");
    CHECK(seconds_of_milliseconds(1.2345678) == 0.001234568);
}

namespace {

const std::string layer_opening =
    "[Benchmark] world_size = 2, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = "
    "8192, num_local_experts = 3, topK = 2\n";
std::string with(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
}
std::string layer_step(int step) {
    return fmt::format(
        "STEP-{}: step_time = {}.5 ms, foward_time = 4.25, backward_time = 6.0, perf = 1 tflops.\n",
        step, 10 + step);
}

}  // namespace

TEST_CASE("a layer's benchmark states its dtype and its sizes") {
    const std::string end =
        "fast_moe 4 [Summary] Average synchronized step_time = 1 ms, forward = 2 , backward = 3 "
        ".\n";
    const auto model = [&](const char* dtype) {
        return imported(with(layer_opening, "float16", dtype) + layer_step(0) + end)
            .runs.at(0)
            .model;
    };
    CHECK(model("float16") == "moe_layer-1024x4096-fp16-8192-top2");
    CHECK(model("bfloat16") == "moe_layer-1024x4096-bf16-8192-top2");
    CHECK(model("float32") == "moe_layer-1024x4096-fp32-8192-top2");
    CHECK_THAT(refusal(with(layer_opening, "float16", "int8"), LogFormat::moe_steps),
               Contains("a.log:1: [Benchmark] line has no dtype among"));
    for (const auto& [key, value] : {std::pair{"world_size", "2"},
                                     {"model_dim", "1024"},
                                     {"hidden_size", "4096"},
                                     {"samples", "8192"},
                                     {"num_local_experts", "3"},
                                     {"topK", "2"}})
        CHECK_THAT(refusal(with(layer_opening, fmt::format("{} = {}", key, value),
                                fmt::format("{} = 0", key)),
                           LogFormat::moe_steps),
                   Contains(fmt::format("has no \"{} = N\" with N of at least 1", key)));
    CHECK_THAT(refusal(with(with(layer_opening, "world_size = 2", "world_size = 1001"),
                            "num_local_experts = 3", "num_local_experts = 1000"),
                       LogFormat::moe_steps),
               Contains("1001 ranks x 1000 experts is absurd"));
    CHECK_THAT(refusal(with(layer_opening, "num_local_experts = 3", "num_local_experts = 1000001"),
                       LogFormat::moe_steps),
               Contains("is absurd"));
    CHECK_THAT(refusal(with(with(layer_opening, "world_size = 2", "world_size = 1000"),
                            "num_local_experts = 3", "num_local_experts = 1000"),
                       LogFormat::moe_steps),
               Contains("has no [Summary]"));
    const ReadRun run = imported(layer_opening + layer_step(0) + layer_step(1) + end).runs.at(0);
    CHECK(values_of(run) ==
          "step -1 0 0.0105 s\nforward -1 0 0.00425 s\nbackward -1 0 0.006 s\nstep -1 1 0.0115 "
          "s\nforward -1 1 0.00425 s\nbackward -1 1 0.006 s\n");
    CHECK((run.experts == 6 && run.first_line == 1 && run.last_line == 4));
}

// One step of phases with every line that the dialect knows; milliseconds.
TEST_CASE("a phase log's labelled lines, each by its name") {
    const std::string
        head = "    (_moe_layer): MixMOETransformerMLP(\n" + layer_opening,
        end = "[Summary] Average synchronized step_time = 1 ms, forward = 2, backward = 3.\n";
    const auto run = [&](const std::string& lines) {
        return imported(head + "block_info 9 2\nblock_info 10 3\n" + lines + layer_step(0) + end,
                        LogFormat::moe_phases);
    };
    const ReadLog all =
        run("cuda:1 process time:1, a: 2, b: 3, c: 4, d: 5\ncuda:0\nperpare first forward gemm: 6 "
            ",  fisrt gemm forward duration: 7\nforward: 8\nLinear 2 Backward: 9, second_gemm: 10\n"
            "perpare first backward gemm: 11,  fisrt gemm backward duration: 12,  weight grad: 13, "
            " other: 14\nLinear 1 Backward: 15\n1 wait time: 16\n9\n0 wait time: "
            "17\nstart\n10\n\nrank: 3\nend end end\n(x)\n");
    CHECK(values_of(all.runs.at(0)) ==
          "process_time 1 0 0.001 s\nprocess_time.a 1 0 0.002 s\nprocess_time.b 1 0 0.003 "
          "s\nprocess_time.c 1 0 0.004 s\nprocess_time.d 1 0 0.005 s\n"
          "prepare_first_forward_gemm -1 0 0.006 s\nfirst_forward_gemm -1 0 0.007 s\nlayer_forward "
          "-1 0 0.008 s\nlinear_2_backward -1 0 0.009 s\nsecond_backward_gemm -1 0 0.01 s\n"
          "prepare_first_backward_gemm -1 0 0.011 s\nfirst_backward_gemm -1 0 0.012 s\nweight_grad "
          "-1 0 0.013 s\nbackward_other -1 0 0.014 s\nlinear_1_backward -1 0 0.015 s\n"
          "wait_time 1 0 0.016 s\nwait_time 0 0 0.017 s\nstep -1 0 0.0105 s\nforward -1 0 0.00425 "
          "s\nbackward -1 0 0.006 s\n");
    CHECK(all.lines == LineCounts{15, 7, 0});  // the 10 after "start" is no sighting
    CHECK_FALSE(all.runs[0].routing);
    for (const char* line : {"AG; 1",
                             "AG, x, 2, 0",
                             "AG, 0.5, -2, 0",
                             "AG, 0.5 2",
                             "AG, 0.5, 2",
                             "GA; 1",
                             "block_info 1",
                             "block_info 9 2 x",
                             "block_inf",
                             "cuda:2 process time:1, a: 2, b: 3, c: 4, d: 5",
                             "cuda:1 process time:1, a: 2, b: 3, c: 4, d: 5 x",
                             "cuda:1 process time:1, a: 2",
                             "cudx",
                             "starting",
                             "rank3",
                             "forward: 8 x",
                             "forward: x",
                             "perpare first forward gemm: 6",
                             "9 x",
                             "2 wait time: 16",
                             "1 wait time: x",
                             "1 wait time: 16 x",
                             "Linear 3",
                             "other words",
                             "[x"}) {
        CAPTURE(line);
        const ReadLog found = run(std::string(line) + "\n");
        CHECK(found.lines.unknown == 1);
        CHECK(found.runs.at(0).samples.size() == 3);
    }
    CHECK(run("block_info 1 1\n").lines.unknown == 0);
    CHECK(values_of(imported(head +
                                 "block_info 9 2\nSTEP-0: step_time = 0.5 ms, foward_time = 0.25, "
                                 "backward_time = 0.125, perf = 1 tflops.\n" +
                                 end,
                             LogFormat::moe_phases)
                        .runs.at(0)) ==
          "step -1 0 0.0005 s\nforward -1 0 0.00025 s\nbackward -1 0 0.000125 s\n");  // less than a
                                                                                      // millisecond
    const std::vector<std::string> odd = run("AG, 0.77, 2.0, 0\n").runs.at(0).notes;
    CHECK(std::ranges::count_if(odd, [](const std::string& note) {
              return note.starts_with("1 AG and GA lines left out: ");
          }) == 1);
    CHECK_THAT(refusal(head + "block_info 0 0\n", LogFormat::moe_phases),
               Contains("block_info 0 0: expected"));
    CHECK_THAT(refusal(head + "block_info 5 -1\n", LogFormat::moe_phases),
               Contains("block_info 5 -1: expected"));
    CHECK_THAT(refusal(head + "block_info 5 6\n", LogFormat::moe_phases),
               Contains("block_info 5 6: expected"));
    // The second run's steps are its own.
    const std::string seen =
        "0 wait time: 1\n9\n1 wait time: 1\n10\nGA, 0.3, 5, 0\nGA, 0.3, 7, 0\n";
    std::string twice;
    for (int i = 0; i < 2; ++i) {
        twice += head;
        for (int step = 0; step < 4; ++step)
            twice += "block_info 9 2\nblock_info 10 3\n" + seen + layer_step(step);
        twice += end;
    }
    const ReadLog two = imported(twice, LogFormat::moe_phases);
    REQUIRE(two.runs.size() == 2);
    for (const ReadRun& one : two.runs) {
        CHECK(series(one, "GA.forward", 1) ==
              std::vector<std::pair<int, double>>{{0, 0.005}, {1, 0.005}, {2, 0.005}, {3, 0.005}});
        CHECK(series(one, "GA.backward", 1) ==
              std::vector<std::pair<int, double>>{{0, 0.007}, {1, 0.007}, {2, 0.007}, {3, 0.007}});
        CHECK(one.notes.empty());
        REQUIRE(one.routing);
        CHECK(one.routing->totals == std::vector<BlockTotals>{{9, 2}, {10, 3}});
        CHECK((one.routing->ranks == 2 && one.routing->experts == 6));
    }
}

// Beyond 2^18 values every second is kept: of 0 .. 2^18 - 1 the even ones, whose median is 2^17 -
// 1; and so on.
TEST_CASE("a series of any length keeps its median, its mean and its count") {
    SeriesValues v;
    for (int i = 0; i < 262143; ++i) v.add(i);
    CHECK(v.median() == 131071);
    v.add(262143);
    CHECK(v.count() == 262144);
    CHECK(v.median() == 131071);
    CHECK(v.mean() == 131071.5);
    // the odd ones are not kept
    for (int i = 0; i < 100000; ++i) v.add(1e6 + (i % 2 == 0 ? 0 : 5e6));
    CHECK(v.count() == 362144);
    CHECK(v.median() == 181071);  // of 131,072 even numbers and 50,000 times a million
}

TEST_CASE("a record's ranks and kinds of values are bounded") {
    SampleRecord record;
    record.add("step", 32767, 1, 2);
    CHECK_THAT(complaint([&] { record.add("step", 32768, 1, 2); }),
               Contains("rank 32768 is above 32767"));
    CHECK_THAT(complaint([&] {
                   for (int i = 0; i < 65537; ++i) (void)record.phase(fmt::format("p{}", i));
               }),
               Contains("more than 65535 kinds of values"));
}

// Ten of fifteen steps are steady. Step 0 of a phase that is not asked for is no median either; a
// log without routing writes none.
TEST_CASE(
    "an import of medians alone keeps no first step, and says where no routing was recorded") {
    const LogFolder folder;
    std::string text;
    for (int i = 0; i < 15; ++i) text += fmt::format("step={} took {} s fwd 0.5 s\n", i, i);
    ImportRequest request;
    request.logs = {folder.file("a.log", text)};
    request.pattern = folder.file("p.toml",
                                  "system = \"mine\"\nmodel = \"m\"\nlines = [\"step={#} took "
                                  "{step:s} s fwd {forward:s}\"]\n");
    request.out = (folder.path / "out.csv").string();
    request.routing_out = (folder.path / "routing").string();
    request.medians_only = true;
    const std::vector<std::string> said = import_to_files(request);
    CHECK(said.at(1) == "no run records its routing; no routing file written");
    CHECK(said.back() == request.out + ": 3 rows, of them 3 medians over steady steps");
    std::string rows;
    for (const Sample& s : read_measurements(request.out))
        rows += fmt::format("{} {} {}\n", s.phase, s.step, s.value);
    CHECK(rows == "step -1 9.5\nstep.mean -1 9.5\nforward -1 0.5\n");
}

// Kernels of a layer's benchmark have a median where one steady step shows them (30 of 0 to 30),
// phases of a whole model where half do.
TEST_CASE("what a single steady step tells counts for a layer, not for a model") {
    const LogFolder folder;
    const auto medians = [&](const std::string& model) {
        std::string text;
        for (int i = 0; i < 100; ++i)
            text += fmt::format("step={} took 9 s{}\n", i, i == 77 ? " odd 0.5 s" : "");
        ImportRequest request;
        request.logs = {folder.file("a.log", text)};
        request.pattern = folder.file("p.toml", "system = \"mine\"\nmodel = \"" + model +
                                                    "\"\nlines = [\"step={#} took {step:s} s odd "
                                                    "{odd:s}\", \"step={#} took {step:s} s\"]\n");
        request.out = (folder.path / "out.csv").string();
        request.medians_only = true;
        import_to_files(request);
        std::string names;
        for (const Sample& s : read_measurements(request.out)) names += s.phase + " ";
        return names;
    };
    CHECK(medians("moe_layer-8x8-fp16-8-top1") == "step odd ");
    CHECK(medians("gpt") == "step step.mean ");
}

// Steps 30 to 31 alone; one number ten times its neighbours on either side is told, a jump that
// stays is not.
TEST_CASE("an import can be of some steps, and watches for numbers misread") {
    const LogFolder folder;
    const auto report = [&](const std::vector<double>& steps, const std::string& only) {
        std::string log;
        for (std::size_t i = 0; i < steps.size(); ++i)
            log += fmt::format("step={} took {} s\n", i, steps[i]);
        ImportRequest request;
        request.logs = {folder.file("a.log", log)};
        request.pattern = folder.file(
            "p.toml", "system = \"mine\"\nmodel = \"m\"\nlines = [\"step={#} took {step:s}\"]\n");
        request.out = (folder.path / "out.csv").string();
        request.steps = only;
        const std::vector<std::string> said = import_to_files(request);
        std::string warning;
        for (const std::string& line : said)
            if (line.find("warning: ") != std::string::npos)
                warning = line.substr(line.find("warning: "));
        return warning;
    };
    const std::string end = "; is the pattern the right one?";
    CHECK(report({1, 1, 11, 1, 1, 0.09, 1}, "") ==
          "warning: step 2 took 11 s, after 1 s of the one before it (2 such steps)" + end);
    CHECK(report({1, 1, 10, 1}, "").empty());
    CHECK(report({1, 1, 11, 11, 11}, "").empty());
    CHECK(report({1, 11, 1}, "") ==
          "warning: step 1 took 11 s, after 1 s of the one before it (1 such steps)" + end);
    CHECK(report({11, 1}, "").empty());
    CHECK(report({1, 11, 200}, "").empty());  // a way up
    CHECK(report({1, 1, 11, 1, 1, 1, 1}, "3-5").empty());
    const std::vector<Sample> rows = read_measurements((folder.path / "out.csv").string());
    REQUIRE(rows.size() == 3);
    CHECK((rows.front().step == 3 && rows.back().step == 5));
    CHECK(report({1, 1, 1}, "1-1").empty());
    CHECK_THAT(
        complaint([&] {
            report({1, 1, 1}, "7-9");
        }),
        Contains("--only-steps 7-9: ") && Contains("has steps 0 to 2; expected some of them"));
    for (const char* wrong : {"x", "3", "3-", "3-2", "-1-2", "1-2x"})
        CHECK_THAT(complaint([&] {
                       report({1, 1}, wrong);
                   }),
                   Contains(fmt::format("--only-steps {}: expected FIRST-LAST", wrong)));
}

// Control characters and DEL (127) could steer a terminal; 60 characters are enough to find a line
// by.
TEST_CASE("a piece of a log is shown in printable ASCII") {
    CHECK(quoted_piece("a~\x7f\x1b\xe9 b") == "\"a~??? b\"");
    CHECK(quoted_piece(std::string(60, 'x')) == '"' + std::string(60, 'x') + '"');
    CHECK(quoted_piece(std::string(61, 'x')) == '"' + std::string(60, 'x') + "..\"");
}
