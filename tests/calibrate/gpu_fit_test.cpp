// Without a GPU: the sweeps' times on a known cluster are predicted, and the fit must find that
// cluster again.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

#include "calibrate/fit_tables.h"
#include "calibrate/gpu_fit.h"
#include "calibrate/gpu_sweep.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "sim/costs/costs.h"
#include "tests/literals.h"
#include "tests/model/files.h"
#include "tests/simulated.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// Without boost, without a power limit, and with products as fast in steps as alone, the same law
// holds in and out of a step.
Cluster known_cluster(int ranks) {
    Cluster cluster = read_cluster("dgx-h200");
    cluster.gpus_per_node = ranks;
    cluster.kernel.training_gemm = 0.9;
    cluster.kernel.training_fp8 = 1;
    cluster.kernel.gemm_boost = 0.001;
    cluster.power = {};
    // simulated sweeps are priced as steps, whose operands are not in the L2; real sweeps repeat
    // their products
    cluster.gpu.l2 = Bytes(0);
    cluster.kernel.memory_efficiency = 0.9;
    cluster.kernel.transpose_efficiency = 0.6;
    cluster.kernel.optimizer_efficiency = 0.7;
    cluster.host.call = 6_us;
    cluster.interference = {};
    return cluster;
}

// One repetition of each sweep as on this cluster; products alone run at the full rate.
std::vector<SweepResult> simulated_sweeps(const Cluster& cluster, int ranks) {
    Cluster alone = cluster;
    alone.kernel.training_gemm = 1;
    std::vector<SweepResult> results;
    for (TaskGraph& graph : gpu_sweeps(ranks, false, BytesPerSecond())) {
        const bool in_step = graph.name(static_cast<TaskId>(graph.size() - 1)) == "between";
        Trace trace =
            simulate(graph, price(graph, in_step ? cluster : alone), cluster.interference);
        Measurement measurement;
        measurement.device = "simulated";
        measurement.steps.emplace_back();
        measurement.traces.push_back(std::move(trace));
        results.push_back({std::move(graph), std::move(measurement)});
    }
    return results;
}

}  // namespace

TEST_CASE(
    "sweeps of a known GPU lead back to what it is, and say how well on the fifth that was held "
    "out") {
    const Cluster truth = known_cluster(1);
    GpuPoints points = collect_gpu_points(simulated_sweeps(truth, 1));
    CHECK(points.blocks.gemms.size() > 300);
    // Half of them suffice for a test.
    std::size_t row = 0;
    std::erase_if(points.blocks.gemms, [&](const GemmRow&) { return row++ % 2 != 0; });
    CHECK(points.blocks.collectives.empty());
    CHECK(points.issue.si() == Approx(6e-6).epsilon(0.01));
    points.date = "2026-02-03";

    Cluster preset = truth;  // fitted elsewhere to a slightly slower card
    preset.kernel.gemm_efficiency *= 0.9;
    preset.kernel.gemm_tile_64 *= 1.1;
    preset.kernel.gemm_traffic_efficiency *= 0.92;
    preset.kernel.gemm_k0 *= 1.2;
    const Start start = start_cluster(
        points, {truth.gpu.name, truth.gpu.sms, truth.gpu.memory, truth.gpu.memory_bandwidth},
        &preset);
    CHECK(start.fitted_before);
    CHECK_FALSE(start.cluster.fitted);
    CHECK(start.cluster.host.call == points.issue);
    CHECK(start.cluster.host.layer == Seconds(0));
    const TablesFit fit = fit_gpu(start, points);
    const KernelCosts& k = fit.cluster.kernel;
    CHECK(k.memory_efficiency == Approx(0.9).epsilon(0.02));
    CHECK(k.transpose_efficiency == Approx(0.6).epsilon(0.02));
    CHECK(k.optimizer_efficiency == Approx(0.7).epsilon(0.02));
    CHECK(k.training_gemm == Approx(0.9).epsilon(0.02));
    CHECK(fit.cluster.fitted->date == "2026-02-03");
    const std::set<std::string> kinds_fitted{"memory_pass",  "transpose",      "optimizer",
                                             "batched_gemm", "sustained_gemm", "attention",
                                             "send_recv",    "flash_attention"};
    const auto of_kinds = std::ranges::count_if(
        points.ops, [&](const KernelRow& p) { return kinds_fitted.contains(p.kind); });
    // fitted and held out
    CHECK(fit.cluster.fitted->samples == of_kinds + static_cast<long>(points.blocks.gemms.size()));
    CHECK(fit.cluster.fitted->sources == std::vector<std::string>{"GPU sweeps: simulated"});
    CHECK(fit.cluster.fitted->parameters.back() ==
          FittedParameter{"host.call", to_string(points.issue), to_string(HostCosts{}.call),
                          points.op_noise, true});
    int kinds = 0;
    for (const HeldOutError& error : fit.cluster.fitted->errors) {
        if (error.method != "held-out fifth" && error.method != "not fitted") continue;
        ++kinds;
        INFO(error.kind);
        CHECK(error.samples > 0);
        CHECK(error.median < (error.method == "not fitted" ? 0.06 : 0.03));
        CHECK(error.mape < 0.06);
    }
    // memory_pass, gemm, grouped_gemm, batched_gemm, transpose, optimizer, sustained_gemm,
    // flash_attention; attention, not fitted
    CHECK(kinds == 9);
}

TEST_CASE("the tables of a calibration are what calibrate --measurements reads") {
    const Cluster truth = known_cluster(2);
    const GpuPoints points = collect_gpu_points(simulated_sweeps(truth, 2));
    const TestFolder own;
    const std::filesystem::path folder = own.path();
    const std::vector<PlannedFile> tables =
        gpu_tables(points, "NVIDIA H200", (folder / "two").string());
    REQUIRE(tables.size() == 4);
    write_whole(tables);
    BuildingBlocks read;
    read_building_blocks((folder / "two-gemm.csv").string(), truth.gpu, read);
    read_building_blocks((folder / "two-collectives.csv").string(), truth.gpu, read);
    CHECK(read.other_device_rows == 0);
    REQUIRE(read.gemms.size() == points.blocks.gemms.size());
    REQUIRE(read.collectives.size() == points.blocks.collectives.size());
    for (std::size_t i = 0; i < read.gemms.size(); ++i) {
        CHECK(read.gemms[i].gemm == points.blocks.gemms[i].gemm);
        CHECK(read.gemms[i].groups == points.blocks.gemms[i].groups);
        CHECK(read.gemms[i].in_steps);
    }
    // Six collectives at eleven sizes from 512 B to 512 MiB.
    CHECK(read.collectives.size() == 66);
}

TEST_CASE("products that run beside a collective tell how much both lose") {
    Cluster truth = known_cluster(2);
    truth.interference = {0.2, 0};
    const GpuPoints points = collect_gpu_points(simulated_sweeps(truth, 2));
    CHECK(points.interference.compute_slowdown == Approx(0.2).epsilon(0.05));
    CHECK(points.interference.communication_slowdown == Approx(0).margin(0.01));
}

// The products alone are made 20 times shorter, so those beside a collective take 20 x 1.2 times as
// long: 23 times longer.
TEST_CASE(
    "a product many times slower beside a collective stays within what a cluster file takes") {
    Cluster truth = known_cluster(2);
    truth.interference = {0.2, 0};
    std::vector<SweepResult> results = simulated_sweeps(truth, 2);
    for (SweepResult& result : results)
        for (Span& span : result.measurement.traces.front().spans)
            if (result.graph.name(span.task) == "apart" &&
                std::holds_alternative<Gemm>(result.graph.op(span.task)))
                span.finish = span.start + 0.05 * (span.finish - span.start);
    CHECK(collect_gpu_points(results).interference.compute_slowdown == 10);
}

TEST_CASE("a GPU that no datasheet describes is described by the best that was measured") {
    GpuPoints points;
    points.blocks.gemms.push_back({Gemm{1000, 1000, 1000, 1, Dtype::bf16}, 1, Seconds(1e-5)});
    points.blocks.gemms.push_back({Gemm{1000, 1000, 1000, 1, Dtype::bf16}, 1, Seconds(2e-5)});
    const auto [start, fitted_before] =
        start_cluster(points, {"Unheard Of", 7, Bytes(8e9), BytesPerSecond(1e12)}, nullptr);
    CHECK_FALSE(fitted_before);
    CHECK(start.gpu.name == "Unheard Of");
    CHECK(start.gpu.peaks[Dtype::bf16].si() == Approx(2e14));
    CHECK(start.gpu.sms == 7);
}

// 1 + 2 kB in 6 ns, 3 + 4 kB in 7 ns, 5 + 1 kB in 10 ns are 0.5, 1 and 0.6 TB/s. If the device
// reports 0.9, that counts.
TEST_CASE("a memory whose rate the device does not say is as fast as the best pass") {
    GpuPoints points;
    points.blocks.gemms.push_back({Gemm{1000, 1000, 1000, 1, Dtype::bf16}, 3, Seconds(1e-5)});
    points.ops = {{"memory_pass", "", MemoryPass{Bytes(1e3), Bytes(2e3)}, Seconds(6e-9)},
                  {"memory_pass", "", MemoryPass{Bytes(3e3), Bytes(4e3)}, Seconds(7e-9)},
                  {"memory_pass", "", MemoryPass{Bytes(5e3), Bytes(1e3)}, Seconds(1e-8)}};
    const auto bandwidth = [&](double said) {
        return start_cluster(points, {"Unheard Of", 7, Bytes(8e9), BytesPerSecond(said)}, nullptr)
            .cluster.gpu.memory_bandwidth.si();
    };
    CHECK(bandwidth(0) == Approx(1e12));
    CHECK(bandwidth(0.9e12) == Approx(0.9e12));
    // three groups
    CHECK(start_cluster(points, {"Unheard Of", 7, Bytes(8e9), {}}, nullptr)
              .cluster.gpu.peaks[Dtype::bf16]
              .si() == Approx(6e14));
}

// All-reduce of 2 MB over four ranks in 10 us: each sends 2 x 3/4 x 2 MB, 300 GB/s. A message of 1
// MB in 5 us: 200 GB/s.
TEST_CASE("links that no datasheet describes are as fast as the best exchange that was measured") {
    GpuPoints points;
    points.ranks = 4;
    points.blocks.gemms.push_back({Gemm{1000, 1000, 1000, 1, Dtype::bf16}, 1, Seconds(1e-5)});
    points.ops.push_back({"send_recv", "", SendRecv{Bytes(1e6), 1}, Seconds(5e-6)});
    const Nameplate plate{"Unheard Of", 7, Bytes(8e9), BytesPerSecond(1e12)};
    CHECK(start_cluster(points, plate, nullptr).cluster.intra.bandwidth.si() == Approx(2e11));
    points.blocks.collectives.push_back({"all_reduce", 4, 1, Bytes(2e6), Seconds(1e-5)});
    CHECK(start_cluster(points, plate, nullptr).cluster.intra.bandwidth.si() == Approx(3e11));
    // Of 5 MB in 10 us three quarters are sent in an all-gather or all-to-all, all of them in a
    // broadcast or a reduce.
    for (const auto& [op, rate] : {std::pair{"all_gather", 3.75e11},
                                   {"broadcast", 5e11},
                                   {"reduce", 5e11},
                                   {"all_to_all", 3.75e11}}) {
        points.blocks.collectives = {{op, 4, 1, Bytes(5e6), Seconds(1e-5)}};
        CHECK(start_cluster(points, plate, nullptr).cluster.intra.bandwidth.si() == Approx(rate));
    }
}

// What the driver reports and the sweeps measured replaces the preset's values. The preset's
// datasheet stays if the GPU's name agrees.
TEST_CASE("a preset of the same GPU gives its datasheet to a calibration and nothing of its host") {
    GpuPoints points;
    points.ranks = 3;
    points.issue = 5_us;
    points.interference = {0.3, 0.2, false};
    points.op_noise = 0.07;
    points.step_noise = 0.05;
    const Cluster preset = read_cluster("dgx-a100");
    const auto [same, before] = start_cluster(
        points, {"NVIDIA A100-SXM4-80GB", 99, Bytes(7e9), BytesPerSecond(1e12)}, &preset);
    CHECK(before);
    CHECK(same.name == "3 x NVIDIA A100-SXM4-80GB");
    CHECK(same.source == "datasheet: " + preset.source);
    CHECK(same.gpu.peaks == preset.gpu.peaks);
    CHECK(same.intra.bandwidth == preset.intra.bandwidth);
    CHECK((same.nodes == 1 && same.gpus_per_node == 3 && same.gpu.sms == 99 &&
           same.gpu.memory == Bytes(7e9)));
    HostCosts host = no_host_costs();
    host.call = 5_us;
    CHECK(same.host == host);
    CHECK(same.interference == points.interference);
    Noise noise;
    noise.op = 0.07;
    noise.step = std::hypot(0.08, 0.05);  // unseen steps, and the noise of these
    CHECK(same.noise == noise);
    CHECK(same.kernel.training_gemm == 1);
    Cluster bare = preset;
    bare.fitted.reset();
    CHECK_FALSE(start_cluster(points, {"A100-SXM4-80GB", 99, Bytes(7e9), {}}, &bare).fitted_before);
    const auto [other, fitted] =
        start_cluster(points, {"Unheard Of", 99, Bytes(7e9), BytesPerSecond(1e12)}, &preset);
    CHECK_FALSE(fitted);
    CHECK(other.source == "measured: best rates, and what the driver says");
    CHECK(other.gpu.memory_bandwidth == BytesPerSecond(1e12));
}
