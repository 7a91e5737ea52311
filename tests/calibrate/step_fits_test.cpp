// Fits to measured steps: what may move, what is set aside; and what a recorded run tells.
#include <catch2/catch.hpp>

#include <cmath>
#include <set>

#include <fmt/format.h>

#include "calibrate/fit_steps.h"
#include "calibrate/from_measurements.h"
#include "model/experiment.h"
#include "model/machine/calibration.h"
#include "model/records/measurement.h"
#include "model/records/measurements.h"
#include "tests/calibrate/step_rows.h"

using namespace stepcast;
using Catch::Contains;

namespace {

std::vector<std::string> keys_of(const std::vector<FitParameter>& all) {
    std::vector<std::string> keys;
    for (const FitParameter& p : all) keys.push_back(p.key);
    return keys;
}

}  // namespace

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
    CHECK(one.spread == 1);
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
