#include "calibrate/gpu_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "calibrate/fit_parameter.h"
#include "calibrate/host_sweep.h"
#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/measurements.h"
#include "sim/costs/collective_costs.h"
#include "sim/costs/op_costs.h"

namespace stepcast {
namespace {

std::string pass_kind(const MemoryPass& pass) {
    switch (pass.access) {
        case MemoryPass::Access::stream: return "memory_pass";
        case MemoryPass::Access::transpose: return "transpose";
        case MemoryPass::Access::optimizer: return "optimizer";
        case MemoryPass::Access::rows: return "rows";
        case MemoryPass::Access::strided: return "strided";
        case MemoryPass::Access::host_link: return "host_link";
        case MemoryPass::Access::host: return "host_pass";
    }
    return "";
}

// A collective's payload as building-block tables count it: for an all-to-all, what one rank holds.
Bytes table_bytes(const Op& op, int ranks) {
    if (const auto* exchange = std::get_if<AllToAll>(&op)) return exchange->bytes.front() * ranks;
    return bytes_moved(op);
}

struct Collected {
    GpuPoints points;
    // durations in the interference sweeps, by kind
    std::map<std::string, std::vector<double>> overlapped, apart;
    std::vector<double> op_spreads, step_spreads;
};

// Rows that occur several times, on several ranks or repeated in a graph, by name, op and number of
// ranks.
using RowsOfKernels =
    std::map<std::tuple<std::string, std::string, int>, std::pair<Op, std::vector<double>>>;

std::string key_of(const Op& op) {
    if (const auto* gemm = std::get_if<Gemm>(&op))
        return fmt::format("gemm {} {} {} {} {} {}", gemm->m, gemm->n, gemm->k, gemm->batch,
                           to_string(gemm->dtype), gemm->accumulate);
    if (const auto* group = std::get_if<GroupedGemm>(&op))
        return fmt::format("grouped {} {} {} {}", joined(group->rows, ","), group->n, group->k,
                           to_string(group->dtype));
    if (const auto* pass = std::get_if<MemoryPass>(&op))
        return fmt::format("pass {} {} {}", pass->read.si(), pass->written.si(),
                           as_int(pass->access));
    if (const auto* attention = std::get_if<Attention>(&op))
        return fmt::format("attention {} {} {} {} {} {} {} {} {}", attention->batch,
                           attention->heads, attention->kv_heads, attention->seq_q,
                           attention->head_dim, attention->causal, attention->window,
                           attention->backward, attention->flash);
    return fmt::format("{} {}", kind_name(op), table_bytes(op, 1).si());
}

void add_row(GpuPoints& points, const std::string& name, const Op& op, int ranks, Seconds time) {
    const auto* const gemm = std::get_if<Gemm>(&op);
    const auto add = [&](const std::string& kind) { points.ops.push_back({kind, "", op, time}); };
    if (const auto* pass = std::get_if<MemoryPass>(&op)) {
        add(pass_kind(*pass));
    } else if (const auto* attention = std::get_if<Attention>(&op)) {
        add(attention->flash ? "flash_attention" : "attention");
    } else if (name == "sustained") {
        add("sustained_gemm");
    } else if (gemm && gemm->batch > 1) {
        add("batched_gemm");
    } else if (gemm) {
        GemmRow row{.gemm = *gemm, .time = time, .in_steps = true};
        row.gemm.alignment = alignment_of(*gemm);
        points.blocks.gemms.push_back(row);
    } else if (const auto* group = std::get_if<GroupedGemm>(&op)) {
        points.blocks.gemms.push_back(
            {.gemm = Gemm{group->rows.front(), group->n, group->k, 1, group->dtype},
             .groups = as_int(group->rows.size()),
             .time = time,
             .in_steps = true});
    } else if (std::holds_alternative<SendRecv>(op)) {
        add("send_recv");
    } else if (is_collective(op)) {
        points.blocks.collectives.push_back(
            {std::string(kind_name(op)), ranks, 1, table_bytes(op, ranks), time});
    }
}

// For rank 0: products that lie wholly inside the time of the collectives, and collectives that lie
// wholly inside that of the products.
void add_overlapped(const TaskGraph& graph, const Measurement& measurement, Collected& collected) {
    struct Reach {
        Seconds begin = Seconds(INFINITY), end;
    };
    for (const Trace& trace : measurement.traces) {
        std::array<Reach, 2> reach;  // products, collectives
        const auto mine = [&](const Span& span) {
            return span.place.rank() == 0 && graph.name(span.task) == "beside";
        };
        for (const Span& span : trace.spans) {
            if (!mine(span)) continue;
            Reach& own = reach[is_collective(graph.op(span.task)) ? 1 : 0];
            own = {std::min(own.begin, span.start), std::max(own.end, span.finish)};
        }
        for (const Span& span : trace.spans) {
            if (!mine(span)) continue;
            const bool collective = is_collective(graph.op(span.task));
            const Reach& other = reach[collective ? 0 : 1];
            if (span.start >= other.begin && span.finish <= other.end)
                collected.overlapped[collective ? "collective" : "gemm"].push_back(
                    (span.finish - span.start).si());
        }
    }
}

// Limited to the range of cluster.interference; a device that is more than ten times slower was
// busy with something else.
double slowdown(const Collected& collected, const char* what) {
    constexpr double most = 10;
    const auto overlapped = collected.overlapped.find(what), apart = collected.apart.find(what);
    if (overlapped == collected.overlapped.end() || apart == collected.apart.end()) return 0;
    return std::clamp(median(overlapped->second) / median(apart->second) - 1, 0.0, most);
}

// Takes the best measured rates as the datasheet of a GPU that has none here. An efficiency of 1 is
// then that of the best shape.
void measured_datasheet(Gpu& gpu, const GpuPoints& points) {
    for (const GemmRow& row : points.blocks.gemms) {
        const Flops work = row.groups * flops_of(row.gemm);
        FlopsPerSecond& peak = gpu.peaks[row.gemm.dtype];
        peak = std::max(peak, work / row.time);
    }
    if (gpu.memory_bandwidth > BytesPerSecond(0)) return;  // the driver reports it
    for (const KernelRow& point : points.ops)
        if (const auto* pass = std::get_if<MemoryPass>(&point.op))
            gpu.memory_bandwidth =
                std::max(gpu.memory_bandwidth, (pass->read + pass->written) / point.time);
}

// The links' bandwidth for a GPU without a datasheet: the best rate at which ranks exchanged
// anything.
BytesPerSecond measured_link(const GpuPoints& points) {
    BytesPerSecond best;
    for (const CollectiveRow& row : points.blocks.collectives)
        best = std::max(best, bus_factor(row.op, row.ranks) * row.bytes / row.time);
    for (const KernelRow& point : points.ops)
        if (const auto* message = std::get_if<SendRecv>(&point.op))
            best = std::max(best, message->bytes / point.time);
    return best;
}

FitCase case_of(const KernelRow& point, std::size_t number) {
    return {fmt::format("{} {}", point.kind, number), point.kind, "sweeps", point.time,
            [op = point.op](const Cluster& c) {
                const bool pair = std::holds_alternative<SendRecv>(op);
                return pair ? collective_time(op, Group{2}, c) : op_time(op, Phase::forward, {}, c);
            }};
}

FitPlan plan_of(const GpuPoints& points, std::string_view kind, const std::string& priors = "") {
    FitPlan plan{.parameters = fit_priors({priors}), .cases = {}, .share = HeldOutShare::fifth};
    for (const KernelRow& point : points.ops)
        if (point.kind == kind) plan.cases.push_back(case_of(point, plan.cases.size()));
    return plan;
}

}  // namespace

GpuPoints collect_gpu_points(std::span<const SweepResult> results) {
    Collected collected;
    GpuPoints& points = collected.points;
    RowsOfKernels rows;
    std::vector<double> intervals;
    for (const auto& [graph, measurement] : results) {
        points.ranks = graph.rank_count();
        points.device = measurement.device;
        points.date = measurement.date;
        std::vector<const Trace*> traces;
        for (const Trace& trace : measurement.traces) traces.push_back(&trace);
        const std::vector<std::vector<double>> by_task = durations(graph, traces);
        for (TaskId task = 0; task < graph.size(); ++task) {
            const std::string name(graph.name(task));
            points.samples += as_int(by_task[task].size());
            if (name == "apart")
                collected.apart[is_collective(graph.op(task)) ? "collective" : "gemm"].push_back(
                    median(by_task[task]));
            constexpr std::array unmeasured{"head", "align", "empty", "between", "beside", "apart"};
            if (contains(unmeasured, name)) continue;
            auto& [op, times] =
                rows[{name, key_of(graph.op(task)), as_int(graph.places(task).size())}];
            op = graph.op(task);
            times.push_back(median(by_task[task]));
            collected.op_spreads.push_back(log_spread(by_task[task]));
        }
        add_empty_intervals(graph, traces, intervals);
        add_overlapped(graph, measurement, collected);
        collected.step_spreads.push_back(step_spread(traces));
    }
    for (const auto& [where, row] : rows)
        add_row(points, std::get<0>(where), row.first, std::get<2>(where),
                Seconds(median(row.second)));
    if (!intervals.empty()) points.issue = Seconds(median(intervals));
    points.interference = {slowdown(collected, "gemm"), slowdown(collected, "collective")};
    points.op_noise = sweep_noise(collected.op_spreads);
    points.step_noise = sweep_noise(collected.step_spreads);
    return points;
}

// A row of what the batched table holds; empty where the op is none of it.
static std::string batched_row(const KernelRow& point) {
    const double time = 1e6 * point.time.si();
    if (const auto* gemm = std::get_if<Gemm>(&point.op); gemm && gemm->batch > 1)
        return fmt::format("{},{},{},{},{},{:.3f}\n", gemm->batch, gemm->m, gemm->n, gemm->k,
                           to_string(gemm->dtype), time);
    if (const auto* a = std::get_if<Attention>(&point.op); a && a->flash && a->window == 0)
        return fmt::format("{},{},{},{},{}-flash{}{},{:.3f}\n", a->batch * a->heads, a->seq_q,
                           a->seq_k, a->head_dim, to_string(a->dtype), a->causal ? "-causal" : "",
                           a->backward ? "-backward" : "", time);
    return {};
}

std::vector<PlannedFile> gpu_tables(const GpuPoints& points, const std::string& gpu,
                                    const std::string& stem) {
    std::string gemms = "gpu,m,n,k,groups,dtype,timer,time_us\n",
                collectives = "gpu,op,ranks,nodes,bytes,time_us\n",
                passes = "gpu,kind,read_bytes,written_bytes,time_us\n",
                batched = "batch,m,n,k,dtype,time_us\n";
    for (const GemmRow& row : points.blocks.gemms)
        gemms += fmt::format("{},{},{},{},{},{}{},{},{:.3f}\n", gpu, row.gemm.m, row.gemm.n,
                             row.gemm.k, row.groups, to_string(row.gemm.dtype),
                             row.gemm.accumulate ? " -> fp32" : "",
                             row.in_steps ? "step" : "kernel", 1e6 * row.time.si());
    for (const CollectiveRow& row : points.blocks.collectives)
        collectives += fmt::format("{},{},{},{},{:.0f},{:.3f}\n", gpu, row.op, row.ranks, row.nodes,
                                   row.bytes.si(), 1e6 * row.time.si());
    for (const KernelRow& point : points.ops)
        if (const auto* pass = std::get_if<MemoryPass>(&point.op))
            passes += fmt::format("{},{},{:.0f},{:.0f},{:.3f}\n", gpu, point.kind, pass->read.si(),
                                  pass->written.si(), 1e6 * point.time.si());
        else
            batched += batched_row(point);
    std::vector<PlannedFile> files{{stem + "-gemm.csv", gemms}, {stem + "-memory.csv", passes}};
    if (batched.find('\n') + 1 < batched.size()) files.push_back({stem + "-batched.csv", batched});
    if (!points.blocks.collectives.empty())
        files.push_back({stem + "-collectives.csv", collectives});
    return files;
}

Start start_cluster(const GpuPoints& points, const Nameplate& plate, const Cluster* known) {
    Cluster cluster;
    if (known != nullptr) cluster = *known;
    const bool same = known != nullptr && names_device(plate.name, known->gpu);
    cluster.name = fmt::format("{} x {}", points.ranks, plate.name);
    if (!same) {
        cluster.gpu = {plate.name, "", plate.multiprocessors, plate.memory, plate.memory_bandwidth};
        measured_datasheet(cluster.gpu, points);
        cluster.intra.bandwidth = measured_link(points);
    }
    cluster.source =
        same ? "datasheet: " + known->source : "measured: best rates, and what the driver says";
    cluster.nodes = 1;
    cluster.gpus_per_node = points.ranks;
    cluster.gpu.sms = plate.multiprocessors;
    cluster.gpu.memory = plate.memory;
    cluster.host = no_host_costs();
    cluster.host.call = points.issue;
    cluster.interference = points.interference;
    cluster.noise = {};
    cluster.noise.op = points.op_noise;
    cluster.noise.step = noise_of_steps(unseen_gpu_step, points.step_noise);
    cluster.kernel.training_gemm = 1;
    // sweeps run as long as steps, so that their clock is in the rates
    cluster.power.in_rates = true;
    cluster.kernel.gemm_table.clear();
    cluster.kernel.gemm_near.clear();
    cluster.kernel.gemm_near_accumulated.clear();
    cluster.kernel.memory_curve.clear();
    const bool fitted_before = same && cluster.fitted.has_value();
    cluster.fitted.reset();
    return {std::move(cluster), fitted_before};
}

TablesFit fit_gpu(const Start& start, const GpuPoints& points, const Progress& progress) {
    if (points.blocks.gemms.empty())
        throw ConfigError("calibrate: nothing measured; expected GPU sweeps");
    TablesHow how{HeldOutShare::fifth, true, start.fitted_before};
    // Small passes tell best what a kernel costs at least, so they come first and GEMMs keep that.
    how.before = {plan_of(points, "memory_pass", "sweep_passes")};
    how.after = {plan_of(points, "transpose", "sweep_transposes"),
                 plan_of(points, "optimizer", "sweep_optimizers"),
                 plan_of(points, "batched_gemm", "sweep_batches"),
                 plan_of(points, "sustained_gemm", "sweep_sustained"),
                 plan_of(points, "attention"),
                 plan_of(points, "flash_attention", "sweep_flash"),
                 plan_of(points, "send_recv")};
    TablesFit fit = fit_tables(start.cluster, points.blocks, progress, how);
    Fitted& fitted = *fit.cluster.fitted;
    fitted.date = points.date;
    fitted.sources = {"GPU sweeps: " + points.device};
    fitted.parameters.push_back(
        {"host.call", to_string(points.issue), to_string(HostCosts{}.call), points.op_noise, true});
    return fit;
}

}  // namespace stepcast
