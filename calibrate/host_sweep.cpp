#include "calibrate/host_sweep.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>

#include "calibrate/building_blocks.h"
#include "calibrate/sweep_graphs.h"
#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/measurements.h"
#include "sim/costs/collective_costs.h"

namespace stepcast {
namespace {

constexpr long gemm_sizes[] = {4, 16, 64, 128, 256, 512, 1024, 2048};
constexpr double most_products = 1 << 29;  // m * n * k: some ten milliseconds for one shape
constexpr double graph_products = 2e9;     // m * n * k of one graph: some forty milliseconds

void add_gemms(SweepGraphs& sweep) {
    double products = graph_products;
    const auto add = [&](const Op& op, double size) {
        if (products + size > graph_products) {
            sweep.begin();
            sweep.align();
            products = 0;
        }
        products += size;
        sweep.on_each("gemm", op);
    };
    for (const long m : gemm_sizes)
        for (const long n : gemm_sizes)
            for (const long k : gemm_sizes) {
                const double size = real(m) * real(n) * real(k);
                if (size > most_products) continue;
                // In training a product with a short k is mostly a weight gradient over few rows:
                // C[k,n] = A[rows,k]^T B.
                if (k < 64 && m >= 64 && n >= 64)
                    add(GroupedGemm{{k}, n, m, Dtype::fp32, true}, size);
                else
                    add(Gemm{m, n, k, 1, Dtype::fp32}, size);
            }
}

// Sizes count bytes read and written, in the two ratios of a step's element-wise passes: read as
// much as written, and twice as much. A product before each pass leaves the caches as a step does.
// The largest sizes are those of optimizers. Some sizes also transposed.
void add_memory_passes(SweepGraphs& sweep) {
    constexpr double largest = 256.0 * 1048576;
    const auto add = [&](const MemoryPass& pass) {
        sweep.on_each("work", Gemm{64, 256, 256, 1, Dtype::fp32});
        sweep.on_each("memory", pass);
    };
    for (double bytes = 4096; bytes <= largest; bytes *= 2) {
        if (bytes == 4096 || bytes >= 16.0 * 1048576) sweep.begin();
        sweep.align();
        add({Bytes(bytes / 2), Bytes(bytes / 2)});
        add({Bytes(bytes * 2 / 3), Bytes(bytes / 3)});
        if (bytes >= 1048576 && bytes <= 16.0 * 1048576)
            add({Bytes(bytes / 2), Bytes(bytes / 2), MemoryPass::Access::transpose});
    }
}

void add_empty_tasks(SweepGraphs& sweep) {
    sweep.begin();
    sweep.align();
    for (int task = 0; task < 500; ++task) sweep.on_each("empty", MemoryPass{});
    for (int task = 0; task < 50; ++task) sweep.together("barrier", Barrier{});
}

// Each rank works before it meets the others, so that ranks arrive as unevenly as in a step.
void add_collectives(SweepGraphs& sweep, int ranks) {
    const double others = std::max(1, ranks - 1);
    for (double bytes = 1024; bytes <= 32.0 * 1048576; bytes *= 2) {
        if (bytes == 1024 || bytes == 2.0 * 1048576 || bytes > 4.0 * 1048576) sweep.begin();
        const Bytes size(bytes);
        const auto add = [&](std::string_view name, Op op) {
            sweep.on_each("work", Gemm{64, 256, 256, 1, Dtype::fp32});
            sweep.together(name, std::move(op));
        };
        for (const char* name :
             {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"})
            add(name, *collective_op(name, size, ranks));
        add("all_to_all", *collective_op("all_to_all", size * (ranks / others), ranks));
        sweep.on_each("work", Gemm{64, 256, 256, 1, Dtype::fp32});
        sweep.from_first_to_second("send_recv", SendRecv{size, 1});
    }
}

// The repetitions that count, and which quantile of them is the task's time.
struct Counted {
    std::vector<const Trace*> traces;
    double quantile = 0.5;
};
Counted counted_traces(const Measurement& measurement) {
    Counted counted;
    for (const std::size_t step : indices_of(measurement.steps))
        if (measurement.steps[step].accepted) counted.traces.push_back(&measurement.traces[step]);
    if (!counted.traces.empty()) return counted;
    for (const Trace& trace : measurement.traces) counted.traces.push_back(&trace);
    counted.quantile = 0.25;
    return counted;
}

using GemmShape = std::tuple<long, long, long, Dtype>;

// The times that tasks of each size took in their sweeps.
struct Collector {
    std::map<GemmShape, std::vector<double>> gemms;
    std::map<Bytes, std::vector<double>> memory, transposes;
    std::map<std::string, std::map<Bytes, std::vector<double>>> collectives;
    std::vector<double> barriers;

    void add(const Op& op, double time) {
        const auto append = [&](std::vector<double>& to) { to.push_back(time); };
        if (const auto* gemm = std::get_if<Gemm>(&op))
            append(gemms[{gemm->m, gemm->n, gemm->k, gemm->dtype}]);
        else if (const auto* group = std::get_if<GroupedGemm>(&op);
                 group != nullptr && group->weight_gradient)
            append(gemms[{group->k, group->n, group->rows.at(0), group->dtype}]);
        else if (const auto* pass = std::get_if<MemoryPass>(&op))
            append((pass->access == MemoryPass::Access::transpose
                        ? transposes
                        : memory)[rounded(pass->read + pass->written)]);
        else if (std::holds_alternative<Barrier>(op))
            append(barriers);
        else if (const auto* exchange = std::get_if<AllToAll>(&op))
            append(collectives[std::string(kind_name(op))][busiest_bytes(*exchange)]);
        else if (is_collective(op))
            append(collectives[std::string(kind_name(op))][bytes_moved(op)]);
        else
            throw std::logic_error("a host sweep has no " + std::string(kind_name(op)));
    }
    // Rounded, so that thirds of a size add up to the size again.
    static Bytes rounded(Bytes bytes) { return Bytes(std::round(bytes.si())); }
};

Curve curve_of(const std::map<Bytes, std::vector<double>>& samples) {
    Curve curve;
    for (const auto& [bytes, values] : samples) curve.push_back({bytes, Seconds(median(values))});
    return curve;
}

bool is_empty(const Op& op) {
    const auto* pass = std::get_if<MemoryPass>(&op);
    return pass != nullptr && pass->read + pass->written == Bytes(0);
}

}  // namespace

std::vector<TaskGraph> host_sweeps(int ranks) {
    SweepGraphs sweep(ranks, true, 0);
    add_gemms(sweep);
    add_memory_passes(sweep);
    add_empty_tasks(sweep);
    if (ranks > 1) add_collectives(sweep, ranks);
    return sweep.take();
}

std::vector<std::vector<double>> durations(const TaskGraph& graph,
                                           const std::vector<const Trace*>& traces) {
    std::vector<std::vector<double>> by_task(graph.size());
    for (const Trace* trace : traces) {
        std::vector<double> longest(graph.size(), 0.0);
        for (const Span& span : trace->spans)
            longest[span.task] = std::max(longest[span.task], (span.finish - span.start).si());
        for (TaskId task = 0; task < graph.size(); ++task) by_task[task].push_back(longest[task]);
    }
    return by_task;
}

void add_empty_intervals(const TaskGraph& graph, const std::vector<const Trace*>& traces,
                         std::vector<double>& intervals) {
    for (const Trace* trace : traces) {
        const Span* before = nullptr;
        for (const Span& span : trace->spans) {
            if (span.place.rank() != 0) continue;
            const bool empty = graph.name(span.task) == "empty";
            if (empty && before != nullptr) intervals.push_back((span.start - before->start).si());
            before = empty ? &span : nullptr;
        }
    }
}

double step_spread(const std::vector<const Trace*>& traces) {
    std::vector<double> steps;
    for (const Trace* trace : traces) steps.push_back(step_end(*trace).si());
    return log_spread(steps);
}

double log_spread(const std::vector<double>& values) {
    const double low = quantile(values, 0.25);
    return low > 0 ? std::log(quantile(values, 0.75) / low) / 1.349 : 0.0;
}

double sweep_noise(const std::vector<double>& spreads) {
    return spreads.empty() ? 0 : std::min(median(spreads), 2.0);
}

HostPoints collect_points(std::span<const SweepResult> results) {
    HostPoints points;
    Collector collector;
    std::vector<double> intervals, op_spreads, step_spreads;
    for (const auto& [graph, measurement] : results) {
        const auto [traces, share] = counted_traces(measurement);
        if (traces.empty()) throw std::logic_error("fit_host: a sweep without samples");
        const std::vector<std::vector<double>> by_task = durations(graph, traces);
        for (TaskId task = 0; task < graph.size(); ++task) {
            if (is_empty(graph.op(task)) || graph.name(task) == "align" ||
                graph.name(task) == "work")
                continue;
            collector.add(graph.op(task), quantile(by_task[task], share));
            points.samples += as_int(by_task[task].size());
            if (quantile(by_task[task], 0.25) > 0) op_spreads.push_back(log_spread(by_task[task]));
        }
        add_empty_intervals(graph, traces, intervals);
        step_spreads.push_back(step_spread(traces));
    }
    for (const auto& [shape, values] : collector.gemms)
        points.gemms.push_back({std::get<0>(shape), std::get<1>(shape), std::get<2>(shape),
                                std::get<3>(shape), Seconds(median(values))});
    points.memory = curve_of(collector.memory);
    points.transposes = curve_of(collector.transposes);
    for (const auto& [kind, samples] : collector.collectives)
        points.collectives[kind] = curve_of(samples);
    if (!intervals.empty()) points.empty_task = Seconds(median(intervals));
    if (!collector.barriers.empty()) points.barrier = Seconds(median(collector.barriers));
    points.op_noise = sweep_noise(op_spreads);
    points.step_noise = sweep_noise(step_spreads);
    return points;
}

}  // namespace stepcast
