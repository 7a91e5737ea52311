#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "tests/calibrate/logs.h"

using namespace stepcast;
using Catch::Matchers::Contains;
using Points = std::vector<std::pair<int, double>>;

namespace {

std::string model_step(int step) {
    return "STEP-" + std::to_string(step) +
           ": step_time = 200.500000 ms, foward_time = 60.250000, backward_time = 139.000000\n";
}
const std::string model_summary =
    "\n naive bert 16 [Summary] Average synchronized step_time = 200.5 ms,\n";
const std::string launch =
    "local_rank 0\nworld_rank 0\nworld_size 4\nddp\nDistributedDataParallel(\n  (module): B(\n)\n";

std::string rank_header(int rank, int step) {
    const std::string r = std::to_string(rank);
    return "[rank:" + r + " stage:" + r +
           "] transformer-block(module) forward time (no send/recv) - step " + std::to_string(step);
}
std::string layer(const std::string& name, const std::string& total, int ops) {
    return "  layer[" + name + "]: total=" + total + "ms, ops=" + std::to_string(ops) +
           ", avg/op=0.5ms";
}
std::string batch(int number, const std::string& time) {
    return "| epoch   1 |     " + std::to_string(number) + "/  323 batches | lr 0.00 | ms/batch " +
           time + " | loss  6.84 | ppl   933.51\n";
}
// Two stages; layer 1 is cut: 224 operations on rank 0, 32 on rank 1.
std::string stages(int step) {
    return rank_header(1, step) + "\n" + layer("1", "10.5", 32) + "\n" +
           layer("lm_head", "130.25", 32) + "\n" + rank_header(0, step) + "\n" +
           layer("0", "40", 256) + "\n" + layer("1", "29", 224) + "\n";
}
const std::string pipeline_head =
    "> Total parameters in model: 1,235,814,400\n> World size: 2\n>> model class name: "
    "LlamaForCausalLM\n";

}  // namespace

// 4 ranks are printed at launch; experts are not told by the 16.
TEST_CASE("a run of a whole model is named by its summary and begins with its first step") {
    const LogFolder folder;
    const std::string text =
        launch + model_step(0) + model_step(1) + model_summary + model_step(0) +
        " mix_moe transformer-xl 64 [Summary] Average synchronized step_time = 1 ms,\n";
    const ReadLog result = import_log(folder.file("a.log", text));
    REQUIRE(result.format == LogFormat::moe_steps);
    REQUIRE(result.runs.size() == 2);
    const ReadRun& run = result.runs[0];
    CHECK(run.run_id == "a-1-naive-bert");
    CHECK(run.system == "naive");
    CHECK(run.model == "bert");
    CHECK(run.experts == 0);
    CHECK(run.ranks == 4);
    CHECK(series(run, "step") == Points{{0, 0.2005}, {1, 0.2005}});
    CHECK(result.runs[1].run_id == "a-2-mix_moe-transformer-xl");
    // world_size, 3 steps, 2 summaries; the launch and a blank line
    CHECK(result.lines == LineCounts{6, 7, 0});
}

TEST_CASE("a whole model's run that is cut, headless or unnamed is refused with its line") {
    const LogFolder folder;
    const auto told = [&](const std::string& text) {
        try {
            import_log(folder.file("a.log", text), LogFormat::moe_steps);
        } catch (const ConfigError& error) {
            return std::string(error.what());
        }
        return std::string("imported");
    };
    CHECK_THAT(told(launch + model_step(0)),
               Contains("a.log:8: the run that begins here has no [Summary] line"));
    CHECK_THAT(told(model_step(3) + model_summary), Contains("a.log:1: a STEP line outside a run"));
    CHECK_THAT(
        told(model_step(0) + "fast_moe 4 [Summary] Average synchronized step_time = 1 ms,\n"),
        Contains("a.log:1: a STEP line outside a run"));
    CHECK_THAT(told(model_step(0) + model_step(2) + model_summary),
               Contains("a.log:2: \"STEP-2\": expected STEP-1"));
}

// Step 1's and 2's time is in the first ms/batch, so step 3 is the first with a time of its own.
// Rank 1: 10.5 + 130.25.
TEST_CASE(
    "a pipeline's log gives the layers of every stage and the steps that have a time of their "
    "own") {
    const LogFolder folder;
    const std::string text = pipeline_head + stages(1) + stages(2) + batch(1, "7289.55") +
                             stages(3) + batch(2, "1600.43") + batch(3, "1625.92");
    const ReadLog result = import_log(folder.file("a.log", text));
    REQUIRE(result.format == LogFormat::opt_prime);
    REQUIRE(result.runs.size() == 1);
    const ReadRun& run = result.runs[0];
    CHECK(run.model == "llama-3.2-1b");
    CHECK(run.system == "opt-prime");
    CHECK(run.ranks == 2);
    CHECK(series(run, "step") == Points{{3, 1.60043}, {4, 1.62592}});
    const Points timed = series(run, "timed.forward", 1);
    REQUIRE(timed.size() == 3);
    CHECK(timed[2].first == 3);
    CHECK(timed[2].second == Approx(0.14075));
    CHECK(series(run, "lm_head.forward", 1).size() == 3);
    CHECK(series(run, "layer1.forward", 0) == Points{{1, 0.029}, {2, 0.029}, {3, 0.029}});
    CHECK(series(run, "layer1.forward", 1) == Points{{1, 0.0105}, {2, 0.0105}, {3, 0.0105}});
    CHECK(result.lines.unknown == 0);
}

TEST_CASE("lines that two stages print at once are told apart by layer and number of operations") {
    const LogFolder folder;
    const std::string torn = rank_header(1, 3) + rank_header(0, 3) + "\n\n" + layer("1", "11", 32) +
                             layer("0", "41", 256) + "\n\n" + layer("lm_head", "131", 32) +
                             layer("1", "30", 224) + "\n\n";
    const ReadRun run =
        import_log(folder.file("a.log", pipeline_head + stages(1) + stages(2) + torn)).runs.at(0);
    CHECK(series(run, "timed.forward", 0).at(2).second == Approx(0.071));  // 41 + 30
    CHECK(series(run, "timed.forward", 1).at(2).second == Approx(0.142));  // 11 + 131
    CHECK(run.notes.empty());
}

TEST_CASE("a pipeline's log that breaks off inside a step says which stage is incomplete") {
    const LogFolder folder;
    const std::string text = pipeline_head + stages(1) + stages(2) + rank_header(1, 3) + "\n" +
                             layer("1", "11", 32) + "\n";
    const ReadRun run = import_log(folder.file("a.log", text)).runs.at(0);
    CHECK(series(run, "timed.forward", 1).size() == 2);
    REQUIRE(run.notes.size() == 1);
    CHECK_THAT(run.notes[0], Contains("a.log:17: rank 1 names 1 of its 2 layers in step 3"));
}

TEST_CASE("inputs that a log does not print are given a step each, or to the run") {
    const LogFolder folder;
    const std::string path = folder.file("a.log", pipeline_head + stages(1) + stages(2));
    ImportRequest options;
    options.inputs = {"workload.seq=88,109", "parallelism.micro_batch=1"};
    const ReadRun run = import_log(path, options).runs.at(0);
    CHECK(series(run, "workload.seq") == Points{{1, 88}, {2, 109}});
    CHECK(series(run, "parallelism.micro_batch") == Points{{-1, 1}});
    options.inputs = {"workload.sek=88"};
    CHECK_THROWS_WITH(import_log(path, options), Contains("did you mean \"workload.seq\"?"));
}
