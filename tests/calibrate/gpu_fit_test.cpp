// No GPU: what a known cluster would measure in the sweeps must lead back to that cluster.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "calibrate/gpu_fit.h"
#include "calibrate/gpu_sweep.h"
#include "model/experiment.h"
#include "sim/costs/costs.h"
#include "sim/engine/simulate.h"
#include "tests/model/files.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// Without boost, without a limit of power and with steps as fast as products alone, the law is one law in and out of a step.
Cluster known_cluster(int ranks) {
    Cluster cluster = read_cluster("dgx-h200");
    cluster.gpus_per_node = ranks;
    cluster.kernel.training_gemm = 0.9;
    cluster.kernel.training_fp8 = 1;
    cluster.kernel.gemm_boost = 0.001;
    cluster.power = {};
    cluster.kernel.memory_efficiency = 0.9;
    cluster.kernel.transpose_efficiency = 0.6;
    cluster.kernel.optimizer_efficiency = 0.7;
    cluster.host.call = 6_us;
    cluster.interference = {};
    return cluster;
}

// One repetition of each sweep, as this cluster would take; products alone run at the full rate.
std::vector<SweepResult> simulated_sweeps(const Cluster& cluster, int ranks) {
    Cluster alone = cluster;
    alone.kernel.training_gemm = 1;
    std::vector<SweepResult> results;
    for (TaskGraph& graph : gpu_sweeps(ranks, false, BytesPerSecond())) {
        const bool in_step = graph.name(static_cast<TaskId>(graph.size() - 1)) == "between";
        Trace trace = simulate(graph, price(graph, in_step ? cluster : alone), cluster.interference);
        Measurement measurement;
        measurement.device = "simulated";
        measurement.steps.emplace_back();
        measurement.traces.push_back(std::move(trace));
        results.push_back({std::move(graph), std::move(measurement)});
    }
    return results;
}

}  // namespace

TEST_CASE("sweeps of a known GPU lead back to what it is, and say how well on the fifth that was held out") {
    const Cluster truth = known_cluster(1);
    GpuPoints points = collect_gpu_points(simulated_sweeps(truth, 1));
    CHECK(points.blocks.gemms.size() > 300);
    // Half of them will do for a test.
    std::size_t row = 0;
    std::erase_if(points.blocks.gemms, [&](const GemmRow&) { return row++ % 2 != 0; });
    CHECK(points.blocks.collectives.empty());
    CHECK(points.issue.si() == Approx(6e-6).epsilon(0.01));

    Cluster preset = truth;  // fitted elsewhere, to a card a little slower
    preset.kernel.gemm_efficiency *= 0.9;
    preset.kernel.gemm_tile_64 *= 1.1;
    preset.kernel.gemm_traffic_efficiency *= 0.92;
    preset.kernel.gemm_k0 *= 1.2;
    const Start start =
        start_cluster(points, {truth.gpu.name, truth.gpu.sms, truth.gpu.memory, truth.gpu.memory_bandwidth}, &preset);
    CHECK(start.fitted_before);
    CHECK_FALSE(start.cluster.fitted);
    CHECK(start.cluster.host.call == points.issue);
    CHECK(start.cluster.host.layer == Seconds(0));
    const GpuFit fit = fit_gpu(start, points);
    const KernelCosts& k = fit.cluster.kernel;
    CHECK(k.memory_efficiency == Approx(0.9).epsilon(0.02));
    CHECK(k.transpose_efficiency == Approx(0.6).epsilon(0.02));
    CHECK(k.optimizer_efficiency == Approx(0.7).epsilon(0.02));
    CHECK(k.training_gemm == Approx(0.9).epsilon(0.02));
    int kinds = 0;
    for (const HeldOutError& error : fit.cluster.fitted->errors) {
        if (error.method != "held-out fifth" && error.method != "not fitted") continue;
        ++kinds;
        INFO(error.kind);
        CHECK(error.samples > 0);
        CHECK(error.median < (error.method == "not fitted" ? 0.06 : 0.03));
        CHECK(error.mape < 0.06);
    }
    CHECK(kinds == 7);  // memory_pass, gemm, grouped_gemm, transpose, optimizer, sustained_gemm; attention, not fitted
}

TEST_CASE("the tables of a calibration are what calibrate --measurements reads") {
    const Cluster truth = known_cluster(2);
    const GpuPoints points = collect_gpu_points(simulated_sweeps(truth, 2));
    const TestFolder own;
    const std::filesystem::path folder = own.path();
    const std::vector<PlannedFile> tables = gpu_tables(points, "NVIDIA H200", (folder / "two").string());
    REQUIRE(tables.size() == 3);
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
    }
    // Six collectives at eleven sizes, 512 B to 512 MiB.
    CHECK(read.collectives.size() == 66);
}

TEST_CASE("products that run beside a collective tell how much both lose") {
    Cluster truth = known_cluster(2);
    truth.interference = {0.2, 0};
    const GpuPoints points = collect_gpu_points(simulated_sweeps(truth, 2));
    CHECK(points.interference.compute_slowdown == Approx(0.2).epsilon(0.05));
    CHECK(points.interference.communication_slowdown == Approx(0).margin(0.01));
}

// The products apart take a twentieth: those beside a collective take 20 x 1.2 times as long, 23 times longer.
TEST_CASE("a product many times slower beside a collective stays within what a cluster file takes") {
    Cluster truth = known_cluster(2);
    truth.interference = {0.2, 0};
    std::vector<SweepResult> results = simulated_sweeps(truth, 2);
    for (SweepResult& result : results)
        for (Span& span : result.measurement.traces.front().spans)
            if (result.graph.name(span.task) == "apart" && std::holds_alternative<Gemm>(result.graph.op(span.task)))
                span.finish = span.start + 0.05 * (span.finish - span.start);
    CHECK(collect_gpu_points(results).interference.compute_slowdown == 10);
}

TEST_CASE("a GPU that no datasheet describes is described by the best that was measured") {
    GpuPoints points;
    points.blocks.gemms.push_back({"", Gemm{1000, 1000, 1000, 1, Dtype::bf16}, 1, Seconds(1e-5)});
    points.blocks.gemms.push_back({"", Gemm{1000, 1000, 1000, 1, Dtype::bf16}, 1, Seconds(2e-5)});
    const auto [start, fitted_before] =
        start_cluster(points, {"Unheard Of", 7, Bytes(8e9), BytesPerSecond(1e12)}, nullptr);
    CHECK_FALSE(fitted_before);
    CHECK(start.gpu.name == "Unheard Of");
    CHECK(start.gpu.peaks[Dtype::bf16].si() == Approx(2e14));
    CHECK(start.gpu.sms == 7);
}

// 2 MB summed by four ranks in 10 us: each sends 2 x 3/4 x 2 MB, 300 GB/s; a message of 1 MB in 5 us is 200 GB/s.
TEST_CASE("links that no datasheet describes are as fast as the best exchange that was measured") {
    GpuPoints points;
    points.ranks = 4;
    points.blocks.gemms.push_back({"", Gemm{1000, 1000, 1000, 1, Dtype::bf16}, 1, Seconds(1e-5)});
    points.ops.push_back({"send_recv", SendRecv{Bytes(1e6), 1}, Seconds(5e-6)});
    const Nameplate plate{"Unheard Of", 7, Bytes(8e9), BytesPerSecond(1e12)};
    CHECK(start_cluster(points, plate, nullptr).cluster.intra.bandwidth.si() == Approx(2e11));
    points.blocks.collectives.push_back({"", "all_reduce", 4, 1, Bytes(2e6), Seconds(1e-5)});
    CHECK(start_cluster(points, plate, nullptr).cluster.intra.bandwidth.si() == Approx(3e11));
}

// The first sweep begins with passes of 1 GB and a product of 16 x 512 x 512; 4.8 TB/s / 64 is two halvings.
TEST_CASE("a GPU 64 times slower than an H200 is swept with shapes of a quarter of the length") {
    const auto first = [](double bandwidth, std::string_view name) {
        const std::vector<TaskGraph> graphs = gpu_sweeps(1, false, BytesPerSecond(bandwidth));
        TaskId task = 0;
        while (graphs.front().name(task) != name) ++task;
        return graphs.front().op(task);
    };
    for (const double whole : {0.0, 4.8e12, 8e12, 1e12}) {
        CHECK(first(whole, "gemm") == Op(Gemm{16, 512, 512, 1, Dtype::bf16}));
        CHECK(first(whole, "head") == Op(MemoryPass{Bytes(1e9), Bytes(1e9)}));
    }
    CHECK(first(7.5e10, "gemm") == Op(Gemm{16, 128, 128, 1, Dtype::bf16}));
    CHECK(first(7.5e10, "head") == Op(MemoryPass{Bytes(1e9 / 64), Bytes(1e9 / 64)}));
}
