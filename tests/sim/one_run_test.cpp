// One run of 13 billion weights on 16 H100 as an experiment and as a row of a cases file: one experiment, one step.
#include "model/cases/cases.h"
#include "model/experiment.h"
#include "sim/sweep/point_evaluator.h"
#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("an experiment and a case of the same run are simulated to the same step, in every framework") {
    const TestFolder folder;
    const std::string text =
        "[workload]\nfamily = \"llama\"\nlayers = 40\nhidden = 5120\nheads = 40\nffn = 13824\nvocab = 32000\nseq = 4096\n"
        "dtype = \"bf16\"\noptimizer = \"adam\"\n[parallelism]\ntp = 4\npp = 2\ndp = 2\nzero = 1\n"
        "sequence_parallel = true\nmicro_batch = 1\nglobal_batch = 128\nrecompute = \"full\"\n"
        "[cluster]\npreset = \"dgx-h100\"\nnodes = 2\n";
    const auto file = folder.write("run.toml", text);
    CaseRow row{"cases.csv", 2, {}};
    row.cells = {{"source", "my_runs"}, {"case_id", "run"}, {"model", "llama-13b"}, {"layers", "40"}, {"hidden", "5120"},
                 {"heads", "40"},       {"ffn", "13824"},   {"vocab", "32000"},     {"seq", "4096"},  {"gpus", "16"},
                 {"gpu", "H100"},       {"tp", "4"},        {"pp", "2"},            {"vp", "1"},      {"dp", "2"},
                 {"ep", "1"},           {"cp", "1"},        {"sp", "on"},           {"zero", "1"},    {"mbs", "1"},
                 {"gbs", "128"},        {"recompute", "full"}, {"precision", "bf16"}, {"step_s", "7"}};
    for (const std::string framework : {"", "nemo", "megatron-lm-2021", "torchtitan-eager"}) {
        std::vector<Override> overrides;
        if (!framework.empty()) overrides.push_back({"framework.preset", framework});
        const Experiment e = read_experiment(file, overrides);
        Experiment of_case = case_of(row, "", framework).experiment;
        of_case.routing.draws = e.routing.draws;  // the spread of a case's device is drawn; the step beneath is one
        CHECK(of_case.framework.name == (framework.empty() ? "default" : framework));
        CHECK(simulated_step(of_case) == simulated_step(e));
    }
}
