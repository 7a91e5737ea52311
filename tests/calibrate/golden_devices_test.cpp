// Whole texts of what `calibrate` runs on a device, task by task, and of what it fits to made-up
// times.

#include <array>
#include <map>

#include "calibrate/fit_tables.h"
#include "calibrate/gpu_fit.h"
#include "calibrate/gpu_sweep.h"
#include "calibrate/host_fit.h"
#include "calibrate/host_sweep.h"
#include "model/graph/op.h"
#include "model/machine/cluster_file.h"
#include "sim/costs/costs.h"
#include "tests/calibrate/made_up_machine.h"
#include "tests/golden_text.h"
#include "tests/random_graphs.h"
#include "tests/simulated.h"

using namespace stepcast;

namespace {

// By name, kind and element type: number of tasks, and sums of their arithmetic, bytes (written
// ones count twice) and places.
std::string tasks_of(const std::vector<TaskGraph>& graphs) {
    std::string text;
    for (const TaskGraph& graph : graphs) {
        std::map<std::string, std::array<double, 4>> sums;
        for (TaskId task = 0; task < graph.size(); ++task) {
            const Op& op = graph.op(task);
            const auto dtype = dtype_of(op);
            const auto* pass = std::get_if<MemoryPass>(&op);
            auto& sum = sums[fmt::format("{} {} {}", graph.name(task), kind_name(op),
                                         dtype ? to_string(*dtype) : "")];
            sum[0] += 1;
            sum[1] += flops_of(op).si();
            sum[2] += pass ? (pass->read + 2.0 * pass->written).si() : bytes_moved(op).si();
            sum[3] += static_cast<double>(graph.places(task).size());
        }
        text += fmt::format("graph of {} tasks\n", graph.size());
        for (const auto& [what, sum] : sums)
            text += fmt::format("  {}: {} of {:.10g} FLOP, {:.10g} B, {} places\n", what, sum[0],
                                sum[1], sum[2], sum[3]);
    }
    return text;
}

// Three repetitions, up to 3 % off. The second is disturbed, and on a host marked as such.
std::vector<SweepResult> measured(std::vector<TaskGraph> graphs, const Cluster& truth,
                                  bool disturbed) {
    std::vector<SweepResult> results;
    graphs::RandomSource random(11);
    for (TaskGraph& graph : graphs) {
        Measurement m;
        m.device = "made up";
        m.date = "2026-02-03";
        for (int step = 0; step < 3; ++step) {
            Costs costs = price(graph, truth);
            for (Seconds& time : costs.duration)
                time *= (0.97 + 0.06 * random.fraction()) * (disturbed && step == 1 ? 5 : 1);
            m.traces.push_back(simulate(graph, costs, truth.interference));
            m.steps.emplace_back();
            m.steps.back().accepted = !disturbed || step != 1;
        }
        results.push_back({std::move(graph), std::move(m)});
    }
    return results;
}

std::string every(std::size_t n, const std::string& csv) {
    std::istringstream lines(csv);
    std::string line, text;
    for (std::size_t i = 0; std::getline(lines, line); ++i)
        if (i % n == 0) text += line + "\n";
    return text;
}

}  // namespace

TEST_CASE("golden devices: what is run on them") {
    check_golden("calibrate/golden/sweeps.txt",
                 "==== two fast GPUs\n" + tasks_of(gpu_sweeps(2, true, {})) + "==== a slow GPU\n" +
                     tasks_of(gpu_sweeps(1, false, BytesPerSecond(4e11))) +
                     "==== a host of two ranks\n" + tasks_of(host_sweeps(2)));
}

TEST_CASE("golden devices: the fit of a GPU") {
    Cluster truth = made_up_machine(2);
    truth.gpu.peaks[Dtype::fp16] = FlopsPerSecond(500e12);
    truth.gpu.peaks[Dtype::tf32] = FlopsPerSecond(250e12);
    truth.gpu.peaks[Dtype::fp32] = FlopsPerSecond(60e12);
    truth.interference = {0.15, 0.2, false};
    GpuPoints points = collect_gpu_points(
        measured(gpu_sweeps(2, false, truth.gpu.memory_bandwidth), truth, false));
    std::string text = fmt::format(
        "{} samples, {} ranks, issue {:.5g}, slowed {:.5g} {:.5g}, noise {:.5g} {:.5g}\n",
        points.samples, points.ranks, points.issue.si(), points.interference.compute_slowdown,
        points.interference.communication_slowdown, points.op_noise, points.step_noise);
    for (const PlannedFile& file : gpu_tables(points, "made up", "X"))
        text += "==== " + file.path + "\n" + every(9, file.text);
    std::size_t row = 0;  // a part of the rows suffices for a fit
    std::erase_if(points.blocks.gemms, [&](const GemmRow&) { return row++ % 7 != 0; });
    std::erase_if(points.blocks.collectives, [&](const CollectiveRow&) { return row++ % 3 != 0; });
    const Start start =
        start_cluster(points, {"made up", 100, Bytes(80e9), BytesPerSecond(3e12)}, nullptr);
    text += "==== start\n" + write_cluster(start.cluster);
    const TablesFit fit = fit_gpu(start, points);
    for (const FitResult& result : fit.results) text += describe(result);
    check_golden("calibrate/golden/gpu.txt", text + write_cluster(fit.cluster));
}

TEST_CASE("golden devices: the fit of a host") {
    Cluster truth = made_up_machine(2);
    truth.gpu.peaks = {};
    truth.gpu.peaks[Dtype::fp32] = FlopsPerSecond(1e11);
    truth.gpu.memory_bandwidth = BytesPerSecond(2e10);
    truth.intra.bandwidth = BytesPerSecond(8e9);
    truth.host = no_host_costs();
    truth.launch_blocking = true;
    const Cluster host =
        fit_host(measured(host_sweeps(2), truth, true), "made-up core", Bytes(4e9));
    std::string text = every(3, write_cluster(host));
    for (const auto& curves : {fitted_curves(host), fitted_rates(host)})
        for (const FittedCurve& c : curves) {
            text += c.name + "\n";
            for (std::size_t i = 0; i < c.measured.size(); i += 3)
                text += fmt::format("  {:.5g} {:.5g} {:.5g}\n", c.measured[i].first,
                                    c.measured[i].second, c.fitted[i].second);
        }
    check_golden("calibrate/golden/host.txt", text);
}
