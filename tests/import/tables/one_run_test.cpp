// One run of 13 billion weights on 16 H100 as an experiment, as a row of a cases file and as a
// point of a sweep: one step and one interval, to the digit.

#include "import/tables/case_of.h"
#include "import/tables/cases.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "sim/predict.h"
#include "sim/predict_all.h"
#include "sim/sweep/sweep.h"
#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("simulate, compare and sweep say the same of one run, with and without a framework") {
    const TestFolder folder;
    const std::string text =
        "[workload]\nfamily = \"llama\"\nlayers = 40\nhidden = 5120\nheads = 40\nffn = "
        "13824\nvocab = 32000\nseq = 4096\n"
        "dtype = \"bf16\"\noptimizer = \"adam\"\n[parallelism]\ntp = 4\npp = 2\ndp = 2\nzero = 1\n"
        "sequence_parallel = true\nmicro_batch = 1\nglobal_batch = 128\nrecompute = \"full\"\n"
        "[cluster]\npreset = \"dgx-h100\"\nnodes = 2\n";
    const auto file = folder.write("run.toml", text);
    CaseRow row{"cases.csv", 2, {}};
    row.cells = {{"source", "my_runs"}, {"case_id", "run"},    {"model", "llama-13b"},
                 {"layers", "40"},      {"hidden", "5120"},    {"heads", "40"},
                 {"ffn", "13824"},      {"vocab", "32000"},    {"seq", "4096"},
                 {"gpus", "16"},        {"gpu", "H100"},       {"tp", "4"},
                 {"pp", "2"},           {"vp", "1"},           {"dp", "2"},
                 {"ep", "1"},           {"cp", "1"},           {"sp", "on"},
                 {"zero", "1"},         {"mbs", "1"},          {"gbs", "128"},
                 {"recompute", "full"}, {"precision", "bf16"}, {"step_s", "7"}};
    for (const std::string framework : {"", "nemo", "megatron-lm-2021", "torchtitan-eager"}) {
        std::vector<Override> overrides;
        if (!framework.empty()) overrides.push_back({"framework.preset", framework});
        const Experiment e = read_experiment(file, overrides);
        std::vector<Comparison> compared(1);
        compared[0].what = case_of(row, "", framework);
        predict_all(compared);
        REQUIRE(compared[0].forecast);
        CHECK(compared[0].what.experiment.framework.name ==
              (framework.empty() ? "default" : framework));
        const Forecast simulated = predict(e);
        CHECK(compared[0].forecast->step == simulated.step);
        CHECK(compared[0].forecast->doubts == simulated.doubts);
        SweepQuestion question;
        question.experiment = e;
        question.axes = {parse_axis("parallelism.tp=4")};
        question.top = 1;
        const SweepAnswer swept = sweep(question);
        REQUIRE(swept.best.size() == 1);
        CHECK(swept.best[0].step == simulated.step.p50);
        CHECK(swept.best[0].forecast.step == simulated.step);
        CHECK(swept.best[0].tokens_per_second == simulated.tokens_per_second);
    }
}
