// The pieces of a few-shot fit: slopes of steps, blocks left out, priors of constants.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include "calibrate/step_constants.h"
#include "calibrate/step_fit.h"
#include "calibrate/step_model.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "sim/explain/cluster_parameters.h"
#include "sim/scatter.h"
#include "tests/calibrate/step_rows.h"

using namespace stepcast;

// Among others a pipeline of two stages with 17 micro-batches: two shorter steps, extrapolated
// linearly, give the time of the whole step.
TEST_CASE("a long step is continued from two shorter ones, and its slopes are those of the step") {
    const TestFolder folder;
    for (const StepRow& row :
         {StepRow{.id = "a", .pp = 2, .dp = 2, .batches = 17},
          StepRow{.id = "b", .dp = 2, .batches = 9}, StepRow{.id = "c", .dp = 2, .batches = 2}}) {
        CAPTURE(row.id);
        Case what = cases_of(folder, {row}).front();
        what.experiment.runtime.kernels = KernelStyle::eager;
        what.experiment.runtime.eager_traffic = 2;
        const std::vector<std::string> keys{"kernel.training_gemm", "kernel.memory_efficiency",
                                            eager_traffic_key};
        CHECK(step_with_slopes(what, {}, {}).step.si() ==
              Approx(simulated_step(what.experiment)).epsilon(1e-4));
        // Scaling by factors must equal an experiment with the scaled values.
        Experiment moved = what.experiment;
        moved.cluster = with_scaled(moved.cluster, "kernel.training_gemm", 0.9);
        moved.runtime.eager_traffic = 3;
        const StepSlopes s = step_with_slopes(what, keys, {0.9, 1, 1.5});
        CHECK(s.step.si() == Approx(simulated_step(moved)).epsilon(1e-4));
        for (std::size_t j = 0; j < keys.size(); ++j) {
            const auto at = [&](double by) {
                Experiment e = moved;
                if (keys[j] == eager_traffic_key)
                    e.runtime.eager_traffic *= std::exp(by);
                else
                    e.cluster = with_scaled(e.cluster, keys[j], std::exp(by));
                return std::log(simulated_step(e));
            };
            CAPTURE(keys[j]);
            CHECK(s.slopes.at(j) == Approx((at(0.05) - at(0)) / 0.05).epsilon(0.1).margin(2e-3));
        }
        CHECK(s.slopes[0] < -0.1);
        CHECK(s.slopes[2] > 0.01);
        what.experiment.runtime.kernels = KernelStyle::fused;
        CHECK(step_with_slopes(what, keys, {0.9, 1, 1.5}).slopes[2] == 0);
    }
}

namespace {

// A linear model of one unknown: error = slope x - truth.
RowModel proportional(const Vector& slopes, const Vector& truth) {
    return [=](const Vector& x, const std::vector<bool>&) {
        RowErrors rows{{}, {slopes.size(), 1, slopes}};
        for (std::size_t i = 0; i < slopes.size(); ++i)
            rows.errors.push_back(slopes[i] * x[0] - truth[i]);
        return rows;
    };
}

}  // namespace

// Model "a" has four rows that agree on x = 0.1, "b" has one row of twice the slope that wants x =
// 0.25. A fit without b gives x = 0.1, drawn a little towards 0, and the error 2 x - 0.5 for b,
// outside of its interval. A fit without a gives the error x - 0.1 for a's rows.
TEST_CASE("each block is foretold by a fit to the others, and is inside what they leave open") {
    std::vector<Case> cases(5);
    for (std::size_t i = 0; i < 5; ++i) cases[i].experiment.workload.name = i == 4 ? "b" : "a";
    StepFit fit{{{"k", "", 1, {0, 0.5, -3, 3}}},
                proportional({1, 1, 1, 1, 2}, {0.1, 0.1, 0.1, 0.1, 0.5}),
                {}};
    fit.posterior =
        most_probable(fit.model, priors_of(fit.constants), std::vector<bool>(5, true), {0});
    const std::vector<BlockErrors> blocks = leave_out_blocks(fit, cases, LeftOut::model, {});
    REQUIRE(blocks.size() == 2);
    CHECK(blocks[0].left_out == "a");
    const Posterior without_b = most_probable(fit.model, priors_of(fit.constants),
                                              {true, true, true, true, false}, fit.posterior.x);
    const Posterior without_a = most_probable(fit.model, priors_of(fit.constants),
                                              {false, false, false, false, true}, fit.posterior.x);
    REQUIRE(blocks[1].errors.size() == 1);
    CHECK(blocks[1].errors[0] == Approx(2 * without_b.x[0] - 0.5));
    // The variance of a row is noise^2 + slope^2 times the variance of x.
    const auto inside = [](const Posterior& p, double slope, double error) {
        return std::abs(error) <=
               p90_of_normal *
                   std::sqrt(p.noise * p.noise + slope * slope * p.sigma[0] * p.sigma[0]);
    };
    CHECK(blocks[1].inside == inside(without_b, 2, blocks[1].errors[0]));
    REQUIRE(blocks[0].errors.size() == 4);
    for (const double error : blocks[0].errors) CHECK(error == Approx(without_a.x[0] - 0.1));
    CHECK(blocks[0].inside == 4 * inside(without_a, 1, blocks[0].errors[0]));
    CHECK_FALSE(inside(without_b, 2, blocks[1].errors[0]));
    // all rows are of one framework
    CHECK(leave_out_blocks(fit, cases, LeftOut::framework, {}).empty());
    CHECK(leave_out_blocks(fit, cases, LeftOut::model, [] { return true; }).empty());
    // Just inside and just outside of the interval.
    for (const double beyond : {-1e-6, 1e-6}) {
        const double reach =
            p90_of_normal * std::sqrt(without_b.noise * without_b.noise +
                                      4 * without_b.sigma[0] * without_b.sigma[0]) +
            beyond;
        StepFit edge = fit;
        edge.model =
            proportional({1, 1, 1, 1, 2}, {0.1, 0.1, 0.1, 0.1, 2 * without_b.x[0] + reach});
        edge.posterior.x = fit.posterior.x;
        CHECK(leave_out_blocks(edge, cases, LeftOut::model, {})[1].inside == (beyond < 0));
    }
}

// The prior's sigma is the standard deviation (n - 1) of the logarithms of the different shipped
// values, at least 0.1 and at most 1.5.
TEST_CASE("a belief about a constant is as wide as shipped ones lie apart") {
    const TestFolder folder;
    const Case row = cases_of(folder, {{.id = "a"}}).front();
    std::set<double> gemm, memory;
    for (const std::string& name : preset_names(PresetKind::cluster)) {
        const Cluster c = read_cluster(name);
        gemm.insert(c.kernel.training_gemm);
        memory.insert(c.kernel.memory_efficiency);
    }
    const auto deviation = [](const std::set<double>& values) {
        double mean = 0, squares = 0;
        for (const double v : values) mean += std::log(v);
        mean /= static_cast<double>(values.size());
        for (const double v : values) squares += std::pow(std::log(v) - mean, 2);
        return std::sqrt(squares / static_cast<double>(values.size() - 1));
    };
    const std::vector<StepConstant> constants = step_constants(FitTarget::hardware, {row});
    CHECK(constants[0].key == "kernel.training_gemm");
    CHECK(constants[0].prior.sigma == Approx(std::clamp(deviation(gemm), 0.1, 1.5)).epsilon(1e-3));
    CHECK(constants[1].key == "kernel.memory_efficiency");
    CHECK(constants[1].prior.sigma ==
          Approx(std::clamp(deviation(memory), 0.15, 1.5)).epsilon(1e-3));
    CHECK(constants[1].prior.lower ==
          Approx(std::log(0.1 / row.experiment.cluster.kernel.memory_efficiency)));
    CHECK(constants[1].prior.upper ==
          Approx(std::log(1 / row.experiment.cluster.kernel.memory_efficiency)));
    // Only clusters that state a slow-down count.
    std::set<double> slowdowns;
    for (const std::string& name : preset_names(PresetKind::cluster))
        if (const double value = read_cluster(name).interference.compute_slowdown; value > 0)
            slowdowns.insert(value);
    CHECK(constants.back().key == "interference.compute_slowdown");
    CHECK(constants.back().prior.sigma ==
          Approx(std::clamp(deviation(slowdowns), 0.5, 1.5)).epsilon(1e-3));
    Case without = row;
    without.experiment.cluster.interference.compute_slowdown = 0;
    const std::vector<double> ascending(slowdowns.begin(), slowdowns.end());
    CHECK(step_constants(FitTarget::hardware, {without}).back().start ==
          Approx(ascending[ascending.size() / 2]).epsilon(1e-3));
    Case experts = row;
    experts.experiment.workload.moe.experts = 8;
    // experts are not spread over ranks
    CHECK(step_constants(FitTarget::framework, {experts}).size() == 2);
    // With experts over ranks the set-up belongs to the machine, unless the rows' framework states
    // its time.
    experts.experiment.parallelism.ep = 2;
    const auto setup_of = [&](FitTarget target) {
        for (const StepConstant& c : step_constants(target, {experts}))
            if (c.key == "host.exchange_setup") return c.framework;
        return std::string("none");
    };
    CHECK(setup_of(FitTarget::cluster).empty());
    CHECK(setup_of(FitTarget::hardware) == "none");
    CHECK(setup_of(FitTarget::framework) == "host.exchange_setup");
    set_rule(experts.experiment.framework, "cluster.host.exchange_setup", "100 us");
    CHECK(setup_of(FitTarget::cluster) == "none");
    // Attention that was measured alone stays as it is in a cluster from which other fits start.
    const auto moves_attention = [&](FitTarget target, int tile) {
        Case c = row;
        c.experiment.cluster.kernel.attention.tile = tile;
        return std::ranges::any_of(step_constants(target, {c}), [](const StepConstant& s) {
            return s.key == "kernel.attention_efficiency";
        });
    };
    CHECK(moves_attention(FitTarget::cluster, 0));
    CHECK_FALSE(moves_attention(FitTarget::cluster, 64));
    CHECK(moves_attention(FitTarget::hardware, 64));
    // A start outside of the bounds may stay there.
    Case far = row;
    far.experiment.cluster.kernel.training_gemm = 1.6;
    CHECK(step_constants(FitTarget::hardware, {far}).front().prior.upper == 0);
    far.experiment.cluster.kernel.training_gemm = 0.2;
    CHECK(step_constants(FitTarget::hardware, {far}).front().prior.lower == 0);
    for (const StepConstant& c : step_constants(FitTarget::framework, {row})) {
        CAPTURE(c.key);
        CHECK(c.framework == c.key);
        CHECK(c.prior.sigma >= 1);
        CHECK(c.prior.sigma <= 1.5);
    }
}
