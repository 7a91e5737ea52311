// Fits to measured steps: what may move, what is set aside, what is said of rows that were left out.
#include <catch2/catch.hpp>

#include <cmath>
#include <set>

#include <fmt/format.h>

#include "calibrate/few_shot_internal.h"
#include "calibrate/fit_steps.h"
#include "calibrate/from_measurements.h"
#include "calibrate/scatter.h"
#include "calibrate/step_model.h"
#include "model/experiment.h"
#include "model/machine/cluster_parameters.h"
#include "model/presets.h"
#include "model/records/measurement.h"
#include "model/records/measurements.h"
#include "model/step.h"
#include "sim/interval.h"
#include "sim/engine/simulate.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Contains;

namespace {

struct StepRow {
    std::string id;
    int hidden = 2048, tp = 1, pp = 1, dp = 8, micro_batch = 1, batches = 1;
    double seconds = 1;
    std::string device = "A100-80GB", model = "gpt-x", source = "own";
};

std::string steps_table(const std::vector<StepRow>& rows) {
    std::string text = "source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,topk,gpus,gpu,interconnect,tp,pp,vp,dp,ep,cp,sp,zero,mbs,gbs,"
                       "recompute,precision,metric,value,unit,step_s,ref,notes\n";
    for (const StepRow& r : rows)
        text += fmt::format("{},{},{},4,{},16,16,{},32000,1024,,,{},{},,{},{},1,{},,1,,0,{},{},none,BF16,,,,{:.9g},,\n", r.source, r.id, r.model, r.hidden, 4 * r.hidden,
                            r.tp * r.pp * r.dp, r.device, r.tp, r.pp, r.dp, r.micro_batch, r.dp * r.micro_batch * r.batches, r.seconds);
    return text;
}

std::vector<Case> cases_of(const TestFolder& folder, const std::vector<StepRow>& rows) {
    std::vector<Case> cases;
    for (Comparison& c : read_comparisons(folder.write("rows.csv", steps_table(rows)), "dgx-a100", "")) {
        REQUIRE(c.refused_because == "");
        cases.push_back(std::move(c.what));
    }
    return cases;
}

double simulated_step(const Experiment& e) {
    const TaskGraph graph = build_step(e, routing_of(e));
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    return timeline.end.si();
}

std::vector<std::string> keys_of(const std::vector<FitParameter>& all) {
    std::vector<std::string> keys;
    for (const FitParameter& p : all) keys.push_back(p.key);
    return keys;
}

}  // namespace

// A pipeline of two with 17 micro-batches: two shorter steps and a straight line give what the whole step takes.
TEST_CASE("a long step is continued from two shorter ones, and its slopes are those of the step") {
    const TestFolder folder;
    for (const StepRow& row : {StepRow{.id = "a", .pp = 2, .dp = 2, .batches = 17}, StepRow{.id = "b", .dp = 2, .batches = 9}, StepRow{.id = "c", .dp = 2, .batches = 2}}) {
        CAPTURE(row.id);
        Case what = cases_of(folder, {row}).front();
        what.experiment.parallelism.eager = true;
        what.experiment.parallelism.eager_traffic = 2;
        const std::vector<std::string> keys{"kernel.training_gemm", "kernel.memory_efficiency", eager_traffic_key};
        CHECK(step_with_slopes(what, {}, {}).step.si() == Approx(simulated_step(what.experiment)).epsilon(1e-4));
        // Moved by factors, as if the experiment had the values.
        Experiment moved = what.experiment;
        moved.cluster = with_scaled(moved.cluster, "kernel.training_gemm", 0.9);
        moved.parallelism.eager_traffic = 3;
        const StepSlopes s = step_with_slopes(what, keys, {0.9, 1, 1.5});
        CHECK(s.step.si() == Approx(simulated_step(moved)).epsilon(1e-4));
        for (std::size_t j = 0; j < keys.size(); ++j) {
            const auto at = [&](double by) {
                Experiment e = moved;
                if (keys[j] == eager_traffic_key) e.parallelism.eager_traffic *= std::exp(by);
                else e.cluster = with_scaled(e.cluster, keys[j], std::exp(by));
                return std::log(simulated_step(e));
            };
            CAPTURE(keys[j]);
            CHECK(s.slopes.at(j) == Approx((at(0.05) - at(0)) / 0.05).epsilon(0.1).margin(2e-3));
        }
        CHECK(s.slopes[0] < -0.1);
        CHECK(s.slopes[2] > 0.01);
        what.experiment.parallelism.eager = false;
        CHECK(step_with_slopes(what, keys, {0.9, 1, 1.5}).slopes[2] == 0);
    }
}

// At most six, in their order: what no row exercises does not move.
TEST_CASE("a fit of steps moves what its rows exercise, six constants at most") {
    const TestFolder folder;
    const Case plain = cases_of(folder, {{.id = "a"}}).front();
    Cluster start = read_cluster("dgx-a100");
    start.kernel.attention.tile = 0;
    using Keys = std::vector<std::string>;
    const auto moved = [&](const std::function<void(Experiment&)>& change) {
        Case c = plain;
        change(c.experiment);
        return keys_of(step_parameters(start, {plain, c}));
    };
    const Keys base{"kernel.training_gemm", "kernel.memory_efficiency", "kernel.attention_efficiency"};
    CHECK(moved([](Experiment&) {}) == base);
    CHECK(moved([](Experiment& e) { e.workload.dtype = Dtype::fp8; }) == Keys{"kernel.training_gemm", "kernel.training_fp8", "kernel.memory_efficiency", "kernel.attention_efficiency"});
    CHECK(moved([](Experiment& e) { e.parallelism.tp = 2, e.parallelism.dp = 4; }) == Keys{"kernel.training_gemm", "kernel.memory_efficiency", "kernel.attention_efficiency", "link.intra.training"} );
    CHECK(moved([](Experiment& e) { e.parallelism.tp = 2, e.parallelism.dp = 4, e.parallelism.overlap_tp = true; }).at(1) == "interference.compute_slowdown");
    CHECK(moved([](Experiment& e) { e.parallelism.overlap_tp = true; }) == base);
    CHECK(moved([](Experiment& e) { e.workload.moe.experts = 8, e.parallelism.ep = 2; }) ==
          Keys{"kernel.training_gemm", "host.exchange_setup", "kernel.memory_efficiency", "kernel.attention_efficiency", "link.intra.training"});
    CHECK(moved([](Experiment& e) { e.workload.moe.experts = 8; }) == base);
    CHECK(moved([](Experiment& e) { e.cluster.nodes = 2; }) == Keys{"kernel.training_gemm", "kernel.memory_efficiency", "kernel.attention_efficiency", "link.inter.training"});
    // Rings of a part of a node's ports: eight GPUs over tp 2 are four members, fewer than the eight replicas.
    const auto partial = [&](int tp, int dp, int zero) {
        const Keys keys = moved([&](Experiment& e) { e.parallelism.tp = tp, e.parallelism.dp = dp, e.parallelism.zero = zero; });
        return std::find(keys.begin(), keys.end(), "network.partial_ring") != keys.end();
    };
    CHECK(partial(2, 5, 2));
    CHECK_FALSE(partial(2, 4, 2));
    CHECK_FALSE(partial(2, 5, 3));
    CHECK_FALSE(partial(1, 9, 0));
    CHECK_FALSE(partial(8, 5, 0));
    CHECK(partial(4, 3, 0));
    const Keys all = moved([](Experiment& e) {
        e.workload.dtype = Dtype::fp8, e.parallelism.tp = 2, e.parallelism.dp = 8, e.parallelism.overlap_tp = true, e.workload.moe.experts = 8, e.parallelism.ep = 2, e.cluster.nodes = 2;
    });
    CHECK(all == Keys{"kernel.training_gemm", "kernel.training_fp8", "host.exchange_setup", "network.partial_ring", "interference.compute_slowdown", "kernel.memory_efficiency"});
    start.kernel.attention.tile = 64;  // known from measured kernels
    CHECK(moved([](Experiment&) {}) == Keys{"kernel.training_gemm", "kernel.memory_efficiency"});
    const FitParameter gemm = step_parameters(start, {plain}).front();
    CHECK(gemm == FitParameter{"kernel.training_gemm", fmt::format("{}", start.kernel.training_gemm), 0.1, "0.4", "1.2"});
    CHECK(step_parameters(start, {plain}).back().prior_sigma == 0.15);
    const auto sigma = [&](const std::function<void(Experiment&)>& change, const std::string& key) {
        Case c = plain;
        change(c.experiment);
        for (const FitParameter& p : step_parameters(start, {c}))
            if (p.key == key) return p.prior_sigma;
        return 0.0;
    };
    CHECK(sigma([](Experiment& e) { e.workload.dtype = Dtype::fp8; }, "kernel.training_fp8") == 0.15);
    CHECK(sigma([](Experiment& e) { e.workload.moe.experts = 8, e.parallelism.ep = 2; }, "host.exchange_setup") == 0.7);
    CHECK(sigma([](Experiment& e) { e.parallelism.tp = 2, e.parallelism.dp = 8; }, "network.partial_ring") == 0.4);
    CHECK(sigma([](Experiment& e) { e.parallelism.tp = 2, e.parallelism.overlap_tp = true; }, "interference.compute_slowdown") == 0.5);
    CHECK(sigma([](Experiment& e) { e.cluster.nodes = 2; }, "link.inter.training") == 0.15);
    CHECK(sigma([](Experiment& e) { e.parallelism.ep = 2; }, "link.intra.training") == 0.15);
}

// A row's own machine keeps its size, its memory, its network and its limit of power; the rest is the candidate's.
TEST_CASE("a row is predicted on its own machine with the candidate's constants") {
    const TestFolder folder;
    Case row = cases_of(folder, {{.id = "a", .dp = 16}}).front();
    row.rows = {41, 43};
    const FitCase one = step_case(row);
    CHECK(one.name == "a");
    CHECK(one.kind == "step");
    CHECK(one.row == 41);
    CHECK(one.measured == row.measured_step);
    CHECK(one.predict(row.experiment.cluster).si() == Approx(simulated_step(row.experiment)));
    Cluster other = row.experiment.cluster;
    other.nodes = 7;
    other.gpus_per_node = 3;
    other.gpu.peaks[Dtype::bf16] = FlopsPerSecond(1);
    other.inter.bandwidth = BytesPerSecond(1);
    other.network = {};
    CHECK(one.predict(other).si() == Approx(simulated_step(row.experiment)));
    other.kernel.training_gemm *= 0.5;
    Experiment slower = row.experiment;
    slower.cluster.kernel.training_gemm *= 0.5;
    CHECK(one.predict(other).si() == Approx(simulated_step(slower)));
    CHECK(one.predict(other) > 1.2 * one.predict(row.experiment.cluster));
    row.rows.clear();
    CHECK(step_case(row).row == 0);
    // One model and layout is one fold, whatever else differs; folds are five, by a hash of what is the same everywhere (FNV-1a of
    // "gpt-x 4 1 1 1 16 1" and so on, reckoned apart).
    Case same = row, third = row;
    same.experiment.workload.seq *= 2;
    CHECK(step_case(same).group == step_case(row).group);
    std::set<std::string> folds;
    for (int i = 0; i < 60; ++i) {
        third.experiment.workload.name = fmt::format("m{}", i);
        folds.insert(step_case(third).group);
    }
    CHECK(folds == std::set<std::string>{"fold 0", "fold 1", "fold 2", "fold 3", "fold 4"});
    const auto fold = [](const std::string& what) {
        std::uint64_t hash = 0xcbf29ce484222325;
        for (const char c : what) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
        return fmt::format("fold {}", hash % 5);
    };
    CHECK(step_case(row).group == fold("gpt-x 4 1 1 1 16 1"));
}

// Eight steps of a machine whose products in steps reach 0.8 of the shipped rate, and one that took four times as long as it should
// (beyond six times the noise and 20 %), with a row of another device and one that cannot be predicted.
TEST_CASE("measured steps bring back the rate that made them, and a wild one is set aside") {
    const TestFolder folder;
    std::vector<StepRow> rows;
    for (const int hidden : {2048, 4096, 8192})
        for (const int micro_batch : {1, 2, 4}) rows.push_back({.id = fmt::format("r{}-{}", hidden, micro_batch), .hidden = hidden, .micro_batch = micro_batch});
    const std::vector<Case> cases = cases_of(folder, rows);
    const Cluster truth = with_scaled(read_cluster("dgx-a100"), "kernel.training_gemm", 0.8);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seconds = (i == 4 ? 4 : 1) * step_case(cases[i]).predict(truth).si();
    rows.push_back({.id = "other", .device = "H100"});
    rows.push_back({.id = "unknown", .device = "Abacus 9"});
    const std::string table = folder.write("steps.csv", steps_table(rows)), out = folder.path() + "/fitted.toml";
    const StepRows read = read_step_rows({table}, "dgx-a100");
    CHECK(read.cases.size() == 9);
    CHECK(read.other_devices == 1);
    CHECK(read.refused == 1);
    const std::string text = calibrate_from_measurements({.measurements = {table}, .cluster = "dgx-a100", .out = out, .date = "2026-02-03"});
    CHECK_THAT(text, Contains("9 measured steps of A100-80GB-SXM; passed over: 1 of other devices, 1 that cannot be predicted; start dgx-a100, written to " + out) ||
                         Contains("9 measured steps of A100-SXM4-80GB; passed over: 1 of other devices, 1 that cannot be predicted; start dgx-a100, written to " + out));
    CHECK_THAT(text, Contains("set aside as an outlier, not fitted: r4096-2\n") && !Contains("not fitted: r2048"));
    const Cluster fitted = read_cluster(out);
    CHECK(fitted.kernel.training_gemm == Approx(truth.kernel.training_gemm).epsilon(0.03));
    int folds = 0;
    for (const HeldOutError& e : fitted.fitted->errors) folds += e.kind == "step" && e.method == "five folds by model and layout" && e.samples == 8;
    CHECK(folds == 1);
    CHECK(fitted.fitted->date == "2026-02-03");
    CHECK(fitted.fitted->sources.back() == "steps.csv");
    const Cluster start = read_cluster("dgx-a100");
    CHECK(fitted.fitted->samples == start.fitted->samples + 8);
    // The spread of what was left out: of eight rows a fifth lies beyond 1.2816 standard deviations.
    const StepsFit again = fit_steps(start, read.cases);
    std::vector<double> off;
    for (const CaseResult& c : again.result.cases) off.push_back(std::abs(std::log(c.held_out / c.measured)));
    REQUIRE(off.size() == 8);
    CHECK(again.result.cluster.noise.step == Approx(quantile(off, 0.8) / 1.2816));
    CHECK(again.outliers == std::vector<std::string>{"r4096-2"});
    CHECK(complaint([&] { fit_steps(start, {}); }) == "calibrate: no case of " + start.gpu.name + " can be predicted");
}

// Fifty steps of a whole model are a record of noise, not of kernels.
TEST_CASE("a recorded run of a whole model tells the noise of a cluster") {
    const TestFolder folder;
    std::vector<Sample> samples;
    for (int step = 0; step < 120; ++step) {
        Sample s;
        s.run_id = "run";
        s.model = "gpt";
        s.ranks = 4;
        s.phase = "step";
        s.step = step;
        s.value = 1 + 0.01 * (step % 5);
        samples.push_back(s);
    }
    const std::string record = folder.write("run.csv", write_measurements(samples)), out = folder.path() + "/noise.toml";
    const std::string text = calibrate_from_measurements({.measurements = {record}, .cluster = "dgx-a100", .out = out, .date = "2026-02-03"});
    CHECK_THAT(text, Contains("noise of run run, 90 steps; start dgx-a100, written to " + out));
    const Cluster fitted = read_cluster(out), start = read_cluster("dgx-a100");
    // Of 90 steady steps the median is 1.02, the lower quartile 1.01.
    CHECK(fitted.noise.step == Approx(std::log(1.02 / 1.01) / 0.6745).margin(6e-5));
    CHECK(fitted.fitted->samples == start.fitted->samples + 90);
    CHECK(fitted.fitted->rows.size() > start.fitted->rows.size());
    CHECK(fitted.kernel == start.kernel);
    CHECK_THAT(complaint([&] { calibrate_from_measurements({.measurements = {record, folder.write("t.csv", "m,n,k,dtype,time_us\n1,1,1,bf16,2\n")}, .cluster = "dgx-a100", .out = out, .date = ""}); }),
               Contains("is of another kind than " + record));
    CHECK(are_tables({folder.path() + "/t.csv"}));
    CHECK_FALSE(are_tables({record}));
    CHECK_FALSE(are_tables({}));
    CHECK_FALSE(are_tables({folder.path() + "/t.csv", record}));
    // A profile's steps stand beside its tables and are passed over.
    for (Sample& s : samples) s.phase = s.step % 2 == 0 ? "busy" : "idle";
    const std::string profile = folder.write("p.csv", write_measurements(samples));
    CHECK(are_tables({folder.path() + "/t.csv", profile}));
    CHECK_FALSE(are_tables({profile}));
}

namespace {

// Rows that see one unknown in proportion: error = slope x - truth.
RowModel proportional(const Vector& slopes, const Vector& truth) {
    return [=](const Vector& x) {
        RowErrors rows{{}, {slopes.size(), 1, slopes}};
        for (std::size_t i = 0; i < slopes.size(); ++i) rows.errors.push_back(slopes[i] * x[0] - truth[i]);
        return rows;
    };
}

}  // namespace

// Model "a" has four rows that agree on 0.1, "b" one on 0.3 with twice the slope. Without b: x = 0.1 drawn a little to 0, the error of b
// is 2 x - 0.3 (beyond the reach), without a it is x = 0.15 in about and the errors 0.05.
TEST_CASE("each block is foretold by a fit to the others, and is inside what they leave open") {
    std::vector<Case> cases(5);
    for (std::size_t i = 0; i < 5; ++i) cases[i].experiment.workload.name = i == 4 ? "b" : "a";
    StepFit fit{{{"k", "", 1, {0, 0.5, -3, 3}}}, proportional({1, 1, 1, 1, 2}, {0.1, 0.1, 0.1, 0.1, 0.5}), {}};
    fit.posterior = most_probable(fit.model, priors_of(fit.constants), std::vector<bool>(5, true), {0});
    const std::vector<BlockErrors> blocks = leave_out_blocks(fit, cases, LeftOut::model, {});
    REQUIRE(blocks.size() == 2);
    CHECK(blocks[0].left_out == "a");
    const Posterior without_b = most_probable(fit.model, priors_of(fit.constants), {true, true, true, true, false}, fit.posterior.x);
    const Posterior without_a = most_probable(fit.model, priors_of(fit.constants), {false, false, false, false, true}, fit.posterior.x);
    REQUIRE(blocks[1].errors.size() == 1);
    CHECK(blocks[1].errors[0] == Approx(2 * without_b.x[0] - 0.5));
    // sigma^2 of a row = noise^2 + slope^2 times the variance of x.
    const auto inside = [](const Posterior& p, double slope, double error) { return std::abs(error) <= 1.2816 * std::sqrt(p.noise * p.noise + slope * slope * p.sigma[0] * p.sigma[0]); };
    CHECK(blocks[1].inside == inside(without_b, 2, blocks[1].errors[0]));
    REQUIRE(blocks[0].errors.size() == 4);
    for (const double error : blocks[0].errors) CHECK(error == Approx(without_a.x[0] - 0.1));
    CHECK(blocks[0].inside == 4 * inside(without_a, 1, blocks[0].errors[0]));
    CHECK_FALSE(inside(without_b, 2, blocks[1].errors[0]));
    CHECK(leave_out_blocks(fit, cases, LeftOut::framework, {}).empty());  // all of one
    CHECK(leave_out_blocks(fit, cases, LeftOut::model, [] { return true; }).empty());
    // Just inside and just beyond the reach.
    for (const double beyond : {-1e-6, 1e-6}) {
        const double reach = 1.2816 * std::sqrt(without_b.noise * without_b.noise + 4 * without_b.sigma[0] * without_b.sigma[0]) + beyond;
        StepFit edge = fit;
        edge.model = proportional({1, 1, 1, 1, 2}, {0.1, 0.1, 0.1, 0.1, 2 * without_b.x[0] + reach});
        edge.posterior.x = fit.posterior.x;
        CHECK(leave_out_blocks(edge, cases, LeftOut::model, {})[1].inside == (beyond < 0));
    }
}

// The spread of the shipped values, each once, as a logarithm's standard deviation (n - 1), no less than 0.1 and no more than 1.5.
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
    CHECK(constants[1].prior.sigma == Approx(std::clamp(deviation(memory), 0.15, 1.5)).epsilon(1e-3));
    CHECK(constants[1].prior.lower == Approx(std::log(0.1 / row.experiment.cluster.kernel.memory_efficiency)));
    CHECK(constants[1].prior.upper == Approx(std::log(1 / row.experiment.cluster.kernel.memory_efficiency)));
    // Only clusters that state the slow-down count.
    std::set<double> slowdowns;
    for (const std::string& name : preset_names(PresetKind::cluster))
        if (const double value = read_cluster(name).interference.compute_slowdown; value > 0) slowdowns.insert(value);
    CHECK(constants.back().key == "interference.compute_slowdown");
    CHECK(constants.back().prior.sigma == Approx(std::clamp(deviation(slowdowns), 0.5, 1.5)).epsilon(1e-3));
    Case without = row;
    without.experiment.cluster.interference.compute_slowdown = 0;
    const std::vector<double> ascending(slowdowns.begin(), slowdowns.end());
    CHECK(step_constants(FitTarget::hardware, {without}).back().start == Approx(ascending[ascending.size() / 2]).epsilon(1e-3));
    Case experts = row;
    experts.experiment.workload.moe.experts = 8;
    CHECK(step_constants(FitTarget::framework, {experts}).size() == 2);  // not spread over ranks
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

namespace {

ScatterRow scatter_row(const std::string& model, int ranks, double off, double gemm_share) {
    ScatterRow r;
    r.what.series = r.what.experiment.workload.name = model;
    r.what.experiment.framework.name = "trainer";
    r.what.experiment.cluster.gpu.name = "A100";
    r.what.experiment.cluster.gpus_per_node = ranks;
    r.what.measured_step = Seconds(std::exp(off));
    r.forecast.step = {Seconds(1), Seconds(1), Seconds(1), Seconds(1)};
    r.forecast.basis = {{"gemm", "", false, gemm_share}, {"collective", "", false, 1 - gemm_share}};
    r.off = off;
    return r;
}

}  // namespace

// Three pairs of one model that spend their step alike differ by 0.2, 0.3 and 0.5: only the last may lie beyond (a fifth of three is
// less than one, so none may): near is 0.5. Models are counted once each: three rows of one make three pairs of a third.
TEST_CASE("pairs of one model on as many ranks tell how far configurations differ") {
    std::vector<ScatterRow> rows{scatter_row("m", 8, 0, 0.5), scatter_row("m", 8, 0.2, 0.5), scatter_row("m", 8, 0.5, 0.5)};
    const std::vector<bool> all(rows.size(), true);
    CHECK(fit_scatter(rows, all).pairs.near == Approx(0.5).margin(2e-4));
    CHECK(fit_scatter(rows, all).pairs.far == 0);
    CHECK(fit_scatter(rows, {true, true, false}).pairs.near == Approx(0.2).margin(2e-4));
    CHECK(fit_scatter(rows, {false, false, true}).pairs.near == 0);
    rows[2].what.experiment.cluster.gpus_per_node = 4;  // on other ranks: no pair
    CHECK(fit_scatter(rows, all).pairs.near == Approx(0.2).margin(2e-4));
    // Nine rows of another model make 36 pairs of a ninth each, all alike: weight 4 of 4.5, so a pair of half a row may lie beyond.
    for (int i = 0; i < 9; ++i) rows.push_back(scatter_row("n", 8, 0.1, 0.5));
    CHECK(fit_scatter(rows, std::vector<bool>(rows.size(), true)).pairs.near == 0);
    // Shares 0.3 and 0.5 of products are sqrt(2) x 0.2 apart: 0.5^2 = near^2 + (far x 0.2828)^2 with near 0.
    std::vector<ScatterRow> apart{scatter_row("m", 8, 0, 0.3), scatter_row("m", 8, 0.5, 0.5)};
    const PairScatter pairs = fit_scatter(apart, {true, true}).pairs;
    CHECK(pairs.near == 0);
    CHECK(pairs.far == Approx(0.5 / (0.2 * std::sqrt(2.0))).margin(1e-3));
    // 0.03 and 0.04 of distance are alike, 0.05 / sqrt(2) of a share is not.
    CHECK(fit_scatter({scatter_row("m", 8, 0, 0.5), scatter_row("m", 8, 0.5, 0.5 + 0.049 / std::sqrt(2.0))}, {true, true}).pairs.near == Approx(0.5).margin(2e-4));
    CHECK(fit_scatter({scatter_row("m", 8, 0, 0.5), scatter_row("m", 8, 0.5, 0.5 + 0.051 / std::sqrt(2.0))}, {true, true}).pairs.near == 0);
}

// Two rows are too few for a framework's median; of frameworks at -0.4, 0.1 and 0.2 a tenth lies beyond -0.3 and 0.18.
TEST_CASE("frameworks and blocks are counted where rows are enough") {
    std::vector<ScatterRow> rows;
    for (const auto& [name, off, count] : {std::tuple{"x", -0.4, 3}, {"y", 0.1, 3}, {"z", 0.2, 4}, {"few", 3.0, 2}})
        for (int i = 0; i < count; ++i) {
            rows.push_back(scatter_row(fmt::format("m{}", i / 2), 8 + i, off, 0.5));
            rows.back().what.experiment.framework.name = name;
        }
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    CHECK(table.frameworks.faster == Approx(0.3));
    CHECK(table.frameworks.slower == Approx(0.18));
    REQUIRE(table.groups.size() == 4);
    CHECK((table.groups[3].framework == "z" && table.groups[3].rows == 4 && table.groups[3].blocks == 2 && table.groups[3].gpu == "A100"));
}

// Model "a" is foretold by "b" alone and the other way round. A scatter of some hundredths about 0 holds what is off by 0.01, not what
// is off by 2.
TEST_CASE("blocks left out are counted inside the intervals of a table without them") {
    std::vector<ScatterRow> rows;
    for (int i = 0; i < 6; ++i) rows.push_back(scatter_row(i < 3 ? "a" : "b", 8, i == 0 ? 2 : 0.01 * (i % 2 == 0 ? 1 : -1), 0.5));
    const std::vector<BlockErrors> blocks = leave_out_scatter(rows, LeftOut::model);
    REQUIRE(blocks.size() == 2);
    CHECK(blocks[0].left_out == "a");
    CHECK(blocks[0].errors == std::vector<double>{-2, 0.01, -0.01});
    const ScatterTable of_b = fit_scatter(rows, {false, false, false, true, true, true});
    int inside = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        Doubts doubts = rows[i].forecast.doubts;
        const Scatter s = scatter_of(of_b, rows[i].what.experiment.framework, rows[i].what.experiment.cluster);
        doubts.faster = s.faster;
        doubts.slower = s.slower;
        const Interval reach = predictive_interval(Seconds(1), Seconds(1), doubts);
        CHECK(interval_by(of_b, rows[i]) == reach);
        inside += reach.p10 <= rows[i].what.measured_step && rows[i].what.measured_step <= reach.p90;
    }
    CHECK(blocks[0].inside == inside);
    CHECK(inside < 3);
    CHECK(blocks[1].errors.size() == 3);
    CHECK(leave_out_scatter(rows, LeftOut::device).size() == 1);
}

TEST_CASE("scatter is written with its sources, from tables of steps alone") {
    const TestFolder folder;
    std::vector<StepRow> rows{{.id = "a", .model = "gpt-x"}, {.id = "b", .micro_batch = 2, .model = "gpt-x"}, {.id = "c", .hidden = 4096, .model = "gpt-y"}, {.id = "no", .device = "Abacus 9"}};
    const std::string steps = folder.write("steps.csv", steps_table(rows)), kernels = folder.write("gemms.csv", "gpu,m,n,k,dtype,time_us\nA100,64,64,64,bf16,9\n"), out = folder.path() + "/scatter.toml";
    const std::vector<ScatterRow> read = scatter_rows({steps, kernels});
    REQUIRE(read.size() == 3);
    for (const ScatterRow& r : read) CHECK(r.off == Approx(std::log(1 / r.forecast.step.p50.si())));
    const std::string text = calibrate_scatter({steps, kernels}, out, "2026-02-03");
    CHECK_THAT(text, Contains("scatter of 3 steps in 1 pairs of framework and device written to " + out) && Contains("left out by model"));
    const ScatterTable table = read_scatter(out);
    CHECK(table.date == "2026-02-03");
    CHECK(table.sources == std::vector<std::string>{"steps.csv"});
    CHECK(table.groups.at(0).rows == 3);
    CHECK_THAT(cross_validate_scatter({steps}, LeftOut::model), Contains("gpt-x") && Contains("gpt-y"));
    CHECK(complaint([&] { cross_validate_scatter({steps}, LeftOut::ranks); }) == "--cross-validate ranks: the rows have one ranks only; expected two or more");
    CHECK(complaint([&] { scatter_rows({kernels}); }) == "calibrate: no row of these files states a step that can be predicted");
}
