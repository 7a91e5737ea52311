// What constants that were fitted to measured steps are worth on a block of steps that the fit has not seen: a family of
// models, a table of another source. Only such errors, and how many of the steps lie inside p10..p90, speak for new runs.
#include <catch2/catch.hpp>

#include <cmath>
#include <functional>

#include "calibrate/fit_steps.h"
#include "model/experiment.h"
#include "model/records/measurements.h"
#include "sim/predict.h"
#include "tests/truth.h"

using namespace stepcast;

namespace {

// The shipped cluster before its steps: what kernels and links told stays.
Cluster before_steps(const std::string& preset, const std::vector<Case>& cases) {
    Experiment holder;
    holder.cluster = read_cluster(preset);
    auto& stated = holder.cluster.fitted->parameters;
    for (const FitParameter& free : step_parameters(holder.cluster, cases))
        for (const FittedParameter& p : std::vector(stated))
            if (p.key == free.key && !p.prior.empty()) set_key(holder, {"cluster." + p.key, p.prior});
    std::erase_if(stated, [&](const FittedParameter& p) {
        return p.key.starts_with("kernel.training") || p.key.starts_with("link.intra.training");
    });
    return holder.cluster;
}

struct LeftOut {
    double median = 0, mean = 0, inside = 0;
    std::size_t rows = 0;
};

LeftOut predict_block(const std::string& preset, const std::vector<std::string>& files,
                      const std::function<bool(const Case&)>& left_out) {
    std::vector<std::string> paths;
    for (const std::string& file : files) paths.push_back(truth_folder() + "/" + file + ".csv");
    std::vector<Case> known, block;
    for (Case& c : read_step_rows(paths, preset).cases) (left_out(c) ? block : known).push_back(std::move(c));
    REQUIRE(known.size() >= 5);
    REQUIRE(block.size() >= 5);
    const Cluster fitted = fit_steps(before_steps(preset, known), known).result.cluster;
    LeftOut found;
    std::vector<double> errors;
    for (Case& c : block) {
        Cluster& row = c.experiment.cluster;
        Cluster machine = fitted;  // its own size, memory and network stay
        machine.nodes = row.nodes;
        machine.gpus_per_node = row.gpus_per_node;
        machine.gpu = row.gpu;
        machine.network = row.network;
        machine.network.partial_ring = fitted.network.partial_ring;
        machine.inter.bandwidth = row.inter.bandwidth;
        row = machine;
        const Forecast f = predict(c.experiment);
        errors.push_back(std::abs(f.step.p50 / c.measured_step - 1));
        found.mean += errors.back();
        found.inside += f.step.p10 <= c.measured_step && c.measured_step <= f.step.p90;
    }
    found.rows = block.size();
    found.mean /= static_cast<double>(found.rows);
    found.inside /= static_cast<double>(found.rows);
    found.median = median(errors);
    return found;
}

}  // namespace

TEST_CASE("steps of mixtures of experts on eight B200 are met by constants of dense models alone") {
    if (truth_is_absent()) return;
    const LeftOut found = predict_block("b200-sxm-x8", {"simumax_b200", "simumax_2"},
                                        [](const Case& c) { return c.experiment.workload.moe.experts > 0; });
    CAPTURE(found.rows, found.median, found.mean, found.inside);
    CHECK(found.median <= 0.10);
    CHECK(found.mean <= 0.12);
    CHECK(found.inside >= 0.3);
}

// A fit of minutes, too long for the suite: test_calibrate "[minutes]" runs it.
TEST_CASE("another group's steps on A100 are met by constants fitted without them", "[.][minutes]") {
    if (truth_is_absent()) return;
    const LeftOut found = predict_block("dgx-a100", {"megatron_papers", "mosaic_mpt", "pytorch_jax_fsdp", "vtrain_512"},
                                        [](const Case& c) { return c.source == "vtrain_multi"; });
    CAPTURE(found.rows, found.median, found.mean, found.inside);
    CHECK(found.median <= 0.10);
    CHECK(found.mean <= 0.12);
    CHECK(found.inside >= 0.3);
}
