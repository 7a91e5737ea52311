#include "calibrate/gpu_fit.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/errors.h"
#include "sim/costs/collective_costs.h"
#include "sim/costs/costs.h"

namespace stepcast {

namespace {

// The best rates measured, for a GPU that no datasheet here describes: then an efficiency of 1 is the best shape's.
void measured_datasheet(Gpu& gpu, const GpuPoints& points) {
    for (const GemmRow& row : points.blocks.gemms) {
        const Flops work = row.groups * flops_of(row.gemm);
        FlopsPerSecond& peak = gpu.peaks[row.gemm.dtype];
        peak = std::max(peak, work / row.time);
    }
    if (gpu.memory_bandwidth > BytesPerSecond(0)) return;  // the device says it
    for (const OpPoint& point : points.ops)
        if (const auto* pass = std::get_if<MemoryPass>(&point.op))
            gpu.memory_bandwidth = std::max(gpu.memory_bandwidth, (pass->read + pass->written) / point.time);
}

// Nor of its links: the best rate at which ranks exchanged anything.
BytesPerSecond measured_link(const GpuPoints& points) {
    BytesPerSecond best;
    for (const CollectiveRow& row : points.blocks.collectives)
        best = std::max(best, bus_factor(row.op, row.ranks) * row.bytes / row.time);
    for (const OpPoint& point : points.ops)
        if (const auto* message = std::get_if<SendRecv>(&point.op)) best = std::max(best, message->bytes / point.time);
    return best;
}

FitCase case_of(const OpPoint& point, std::size_t number) {
    return {fmt::format("{} {}", point.kind, number), point.kind, "sweeps", point.time,
            [op = point.op](const Cluster& c) {
                const bool pair = std::holds_alternative<SendRecv>(op);
                return pair ? collective_time(op, Group{2}, c) : op_time(op, Phase::forward, {}, c);
            }};
}

FitPart part_of(const GpuPoints& points, std::string_view kind, std::vector<FitParameter> parameters) {
    FitPart part{std::move(parameters), {}};
    for (const OpPoint& point : points.ops)
        if (point.kind == kind) part.cases.push_back(case_of(point, part.cases.size()));
    return part;
}

}  // namespace

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
    cluster.source = same ? "datasheet: " + known->source : "measured: best rates, and what the driver says";
    cluster.nodes = 1;
    cluster.gpus_per_node = points.ranks;
    cluster.gpu.sms = plate.multiprocessors;
    cluster.gpu.memory = plate.memory;
    cluster.host = no_host_costs();
    cluster.host.call = points.issue;
    cluster.interference = points.interference;
    cluster.noise = {};
    cluster.noise.op = points.op_noise;
    cluster.noise.step = points.step_noise;
    cluster.kernel.training_gemm = 1;
    cluster.kernel.gemm_table.clear();
    cluster.kernel.memory_curve.clear();
    const bool fitted_before = same && cluster.fitted.has_value();
    cluster.fitted.reset();
    return {std::move(cluster), fitted_before};
}

TablesFit fit_gpu(const Start& start, const GpuPoints& points, const std::function<void(std::string_view)>& progress) {
    if (points.blocks.gemms.empty()) throw ConfigError("calibrate: nothing measured; expected GPU sweeps");
    TablesHow how{HeldOutShare::fifth, true, start.fitted_before};
    // Small passes tell best what a kernel costs at least; GEMMs are fitted after that.
    how.before = {part_of(points, "memory_pass",
                          {{"kernel.launch", "2.4 us", 0.5, "0.3 us", "20 us"}, {"kernel.memory_efficiency", "0.85", 0.3, "0.2", "1.2"}})};
    how.after = {part_of(points, "transpose", {{"kernel.transpose_efficiency", "0.5", 0.7, "0.05", "1.2"}}),
                 part_of(points, "optimizer", {{"kernel.optimizer_efficiency", "0.8", 0.3, "0.1", "1.2"}}),
                 part_of(points, "sustained_gemm", {{"kernel.training_gemm", "0.9", 0.3, "0.4", "1.2"}}),
                 part_of(points, "attention", {}), part_of(points, "send_recv", {})};
    TablesFit fit = fit_tables(start.cluster, points.blocks, progress, how);
    Fitted& fitted = *fit.cluster.fitted;
    fitted.date = points.date;
    fitted.sources = {"GPU sweeps: " + points.device};
    fitted.parameters.push_back(
        {"host.call", to_string(points.issue), to_string(HostCosts{}.call), points.op_noise, true});
    return fit;
}

}  // namespace stepcast
