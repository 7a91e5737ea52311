#include <algorithm>
#include <filesystem>
#include <fstream>

#include <unistd.h>
#include <catch2/catch.hpp>

#include "calibrate/host_fit.h"
#include "calibrate/host_sweep.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "model/machine/cluster_file.h"
#include "sim/costs/collective_costs.h"
#include "tests/simulated.h"

using namespace stepcast;

namespace {

// A made-up host: GEMMs at 100 GFLOP/s k / (k + 50), memory at 10 GB/s, links of 1 us + bytes at 5
// GB/s, 0.1 us per task.
Seconds true_time(const Op& op) {
    const Seconds task(1e-7);
    const auto gemm = [&](long m, long n, long k) {
        const auto depth = static_cast<double>(k);
        return task + Seconds(2.0 * static_cast<double>(m) * static_cast<double>(n) * (depth + 50) /
                              100e9);
    };
    if (const auto* one = std::get_if<Gemm>(&op)) return gemm(one->m, one->n, one->k);
    if (const auto* group = std::get_if<GroupedGemm>(&op))
        return gemm(group->k, group->n, group->rows.at(0));
    if (const auto* pass = std::get_if<MemoryPass>(&op))
        return task + (pass->read + pass->written) / BytesPerSecond(10e9);
    if (std::holds_alternative<Barrier>(op)) return Seconds(1e-6);
    if (const auto* exchange = std::get_if<AllToAll>(&op))
        return Seconds(1e-6) + busiest_bytes(*exchange) / BytesPerSecond(5e9);
    return is_collective(op) ? Seconds(1e-6) + bytes_moved(op) / BytesPerSecond(5e9) : Seconds(0);
}

// Three repetitions; the second is disturbed, ten times slower, and marked so.
SweepResult measured(TaskGraph graph) {
    Measurement measurement;
    for (int step = 0; step < 3; ++step) {
        Costs costs;
        for (TaskId task = 0; task < graph.size(); ++task)
            costs.duration.push_back((step == 1 ? 10.0 : 1.0) * true_time(graph.op(task)));
        costs.issue.assign(graph.size(), Seconds(0));
        measurement.traces.push_back(simulate(graph, costs, {}));
        MeasuredStep sample;
        sample.accepted = step != 1;
        measurement.steps.push_back(sample);
    }
    return {std::move(graph), std::move(measurement)};
}

const FittedParameter& parameter(const Cluster& cluster, const std::string& key) {
    const auto& all = cluster.fitted->parameters;
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const FittedParameter& p) { return p.key == key; });
    REQUIRE(found != all.end());
    return *found;
}

}  // namespace

TEST_CASE("the fit of a host recovers a made-up machine from its undisturbed repetitions") {
    std::vector<SweepResult> results;
    for (TaskGraph& graph : host_sweeps(2)) results.push_back(measured(std::move(graph)));
    const Cluster cluster = fit_host(results, "made-up core", Bytes(4e9));

    CHECK(cluster.gpus_per_node == 2);
    CHECK(cluster.launch_blocking);
    CHECK(cluster.host.call == Seconds(0));
    CHECK(cluster.gpu.name == "made-up core");
    for (const GemmPoint& p : cluster.kernel.gemm_table)
        CHECK(p.time.si() == Approx(true_time(Gemm{p.m, p.n, p.k, 1, Dtype::fp32}).si()));
    for (const CurvePoint& p : cluster.intra.all_to_all)
        CHECK(p.time.si() == Approx(1e-6 + p.bytes.si() / 5e9));
    // The truth is linear between points of a curve, so the held-out points are met exactly.
    for (const HeldOutError& error : cluster.fitted->errors)
        if (error.kind != "gemm") CHECK(error.mape < 1e-6);
    CHECK(cluster.noise.op == Approx(0).margin(1e-9));
    CHECK(cluster.kernel.launch.si() == Approx(1e-7));
    CHECK(cluster.intra.bandwidth.si() == Approx(5e9));
    // Rates are relative to the fastest shape: 100 GFLOP/s k / (k + 50) = peak * efficiency k / (k
    // + k0).
    CHECK(cluster.kernel.gemm_efficiency * cluster.gpu.peaks[Dtype::fp32].si() ==
          Approx(100e9).epsilon(0.01));
    CHECK(cluster.kernel.gemm_k0 == Approx(50).epsilon(0.03));
    CHECK(cluster.kernel.memory_efficiency * cluster.gpu.memory_bandwidth.si() ==
          Approx(10e9).epsilon(0.01));
    CHECK(parameter(cluster, "link.intra.latency").determined);

    const std::string file = (std::filesystem::temp_directory_path() /
                              ("stepcast_host_" + std::to_string(getpid()) + ".toml"))
                                 .string();
    std::ofstream(file) << write_cluster(cluster);
    const Cluster back = read_cluster(file);
    std::filesystem::remove(file);
    CHECK(back == cluster);
}

TEST_CASE(
    "the fit of a busy host takes the quicker repetitions, since disturbance only adds time") {
    // None of five repetitions was accepted, and three were disturbed: the lower quartile is the
    // second.
    std::vector<SweepResult> results;
    for (TaskGraph& graph : host_sweeps(2)) {
        SweepResult result = measured(std::move(graph));
        Measurement& m = result.measurement;
        m.traces = {m.traces[1], m.traces[0], m.traces[0], m.traces[1], m.traces[1]};
        m.steps.resize(5);
        for (MeasuredStep& step : m.steps) step.accepted = false;
        results.push_back(std::move(result));
    }
    for (const GemmPoint& p : fit_host(results, "core", Bytes(4e9)).kernel.gemm_table)
        CHECK(p.time.si() == Approx(true_time(Gemm{p.m, p.n, p.k, 1, Dtype::fp32}).si()));
}

TEST_CASE("host sweeps keep every rank at work and each graph short") {
    for (const TaskGraph& graph : host_sweeps(2)) {
        std::size_t tasks[2] = {};
        Flops flops;
        for (TaskId task = 0; task < graph.size(); ++task) {
            for (const Place& place : graph.places(task)) ++tasks[place.rank()];
            if (graph.places(task).front().rank() == 0) flops += flops_of(graph.op(task));
        }
        CHECK(tasks[0] == tasks[1]);
        CHECK(flops.si() <= 4.1e9);  // some forty milliseconds
    }
}
