#include <cmath>

#include <catch2/catch.hpp>

#include "import/tables/case_files.h"
#include "measured/medians.h"
#include "model/records/measurements.h"
#include "sim/predict_all.h"
#include "tests/truth.h"

using namespace stepcast;

namespace {

// Absolute errors of the predicted cases of a published table on one device ("" = all).
std::vector<double> errors_of(const std::string& file, const std::string& device = "",
                              const std::string& without = "") {
    std::vector<Comparison> comparisons = read_comparisons(truth_folder() + "/" + file, "");
    predict_times(comparisons);
    std::vector<double> errors;
    for (const Comparison& c : comparisons)
        if (c.forecast && c.what.case_id != without &&
            (device.empty() || c.what.experiment.cluster.gpu.name == device))
            errors.push_back(std::abs(c.forecast->step.p50 / c.what.measured_step - 1));
    REQUIRE_FALSE(errors.empty());  // a mean of nothing would pass
    return errors;
}

double mean_of(const std::vector<double>& values) {
    double sum = 0;
    for (const double v : values) sum += v;
    return sum / static_cast<double>(values.size());
}
double median_of(const std::vector<double>& values) { return quantile(values, 0.5); }

}  // namespace

TEST_CASE(
    "every published row is predicted but those without a step or with one-hot dispatch (where "
    "shared/truth is)") {
    if (truth_is_absent()) return;
    std::vector<std::string> refused;
    for (const char* name :
         {"vtrain_multi", "megatron_papers", "simumax_b200", "mosaic_mpt", "dgxc_benchmarking",
          "mlperf_training", "nemo_docs", "pytorch_jax_fsdp", "bert_transformerxl", "small_gpt",
          "megatron_bridge_perf", "megatron_bridge_ablations", "megatron_moe_modelzoo",
          "tutel_moe_layer"}) {
        for (const Comparison& c : read_comparisons(truth_folder() + "/" + name + ".csv", ""))
            if (!c.refused_because.empty()) refused.push_back(c.what.case_id);
    }
    CHECK(refused == std::vector<std::string>{"mba_llama70b_sft_baseline", "tutel_deepspeed_b8"});
}

// Most of these rows are among those that the shipped constants were fitted on (six a device);
// notes/published-steps.md has the errors of folds left out. One row of the first table, tensor
// parallel 8 with 64 sequences a micro-batch, takes twice as long as with 32; the fit sets it
// aside.
TEST_CASE("published steps on A100 clusters are predicted within their bars") {
    if (truth_is_absent()) return;
    const auto vtrain = errors_of("vtrain_multi.csv", "", "vt_m_3.6B_tp8_dp8_pp1_mbs64");
    CHECK(mean_of(vtrain) <= 0.05);
    CHECK(median_of(vtrain) <= 0.025);
    CHECK(mean_of(errors_of("megatron_papers.csv", "A100-SXM4-80GB")) <= 0.04);
}

TEST_CASE("published steps on eight B200 are predicted within their bar") {
    if (truth_is_absent()) return;
    CHECK(mean_of(errors_of("simumax_b200.csv")) <= 0.05);
}

TEST_CASE("the median error of further published tables is within a tenth") {
    if (truth_is_absent()) return;
    for (const std::string file : {"mosaic_mpt.csv", "dgxc_benchmarking.csv", "mlperf_training.csv",
                                   "nemo_docs.csv", "pytorch_jax_fsdp.csv"}) {
        INFO(file);
        CHECK(median_of(errors_of(file)) <= 0.1);
    }
}

// None of these rows is in a fit; constants of V100 are A100's.
TEST_CASE("the families that no constant was fitted on are predicted within their bars") {
    if (truth_is_absent()) return;
    CHECK(mean_of(errors_of("bert_transformerxl.csv")) <= 0.1);
    CHECK(mean_of(errors_of("megatron_papers.csv", "V100-SXM3")) <= 0.1);
    CHECK(median_of(errors_of("megatron_bridge_perf.csv")) <= 0.1);
    CHECK(mean_of(errors_of("megatron_moe_modelzoo.csv")) <= 0.1);
    CHECK(mean_of(errors_of("tutel_moe_layer.csv")) <= 0.2);
}
