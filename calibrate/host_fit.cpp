#include "calibrate/host_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "calibrate/fit.h"
#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/records/measurements.h"
#include "sim/costs/measured_tables.h"

namespace stepcast {

namespace {

// y = intercept + slope x by medians (Theil and Sen), so that a disturbed point has no influence.
// `relative_error`: the median absolute residual relative to y, as a standard deviation of the
// mean.
struct Line {
    double intercept = 0, slope = 0, relative_error = 0, condition = 1;
};

using Points = std::vector<std::pair<double, double>>;  // x and y

Line fit_line(const Points& points) {
    std::vector<double> slopes, offsets, residuals;
    for (const std::size_t i : indices_of(points))
        for (std::size_t j = i + 1; j < points.size(); ++j)
            if (points[i].first != points[j].first)
                slopes.push_back((points[j].second - points[i].second) /
                                 (points[j].first - points[i].first));
    Line line;
    line.slope = median(slopes);
    for (const auto& [x, y] : points) offsets.push_back(y - line.slope * x);
    line.intercept = median(offsets);
    double sum = 0, squares = 0;
    for (const auto& [x, y] : points) {
        residuals.push_back(std::abs(line.intercept + line.slope * x - y) / std::abs(y));
        sum += x;
        squares += x * x;
    }
    const auto count = real(points.size());
    line.relative_error = 1.4826 * median(residuals) / std::sqrt(count);
    // Condition of the scaled normal equations [1 c; c 1].
    const double c = std::abs(sum) / std::sqrt(count * squares);
    line.condition = (1 + c) / (1 - c);
    return line;
}

// Adds a parameter with its prior; returns the value as a reader of the file gets it.
std::string state(Fitted& fitted, const std::string& key, const std::string& value,
                  const std::string& prior, double error) {
    fitted.parameters.push_back({key, value, prior, error, true});
    return value;
}

std::string number(double value) { return fmt::format("{:.6g}", value); }

double state_number(Fitted& fitted, const std::string& key, double value, double prior,
                    double error) {
    return as_number<double>(state(fitted, key, number(value), number(prior), error))
        .value_or(value);
}

FlopsPerSecond rate_of(const GemmPoint& p) {
    return Flops(2.0 * real(p.m) * real(p.n) * real(p.k)) / p.time;
}

// rate / peak = efficiency k / (k + k0), hence peak / rate = 1 / efficiency + (k0 / efficiency) /
// k; for shapes large in m and n.
void fit_gemm_law(Cluster& cluster, const HostPoints& points) {
    Points large;
    for (const GemmPoint& p : points.gemms)
        if (p.m >= 256 && p.n >= 256 && p.k >= 64)
            large.emplace_back(1.0 / real(p.k), cluster.gpu.peaks[Dtype::fp32] / rate_of(p));
    if (large.size() < 5)
        refuse("calibrate: {} large GEMM shapes measured, expected at least 5", large.size());
    const Line line = fit_line(large);
    const KernelCosts prior;
    Fitted& fitted = *cluster.fitted;
    cluster.kernel.gemm_efficiency =
        state_number(fitted, "kernel.gemm_efficiency", 1 / line.intercept, prior.gemm_efficiency,
                     line.relative_error);
    cluster.kernel.gemm_k0 =
        state_number(fitted, "kernel.gemm_k0", std::max(0.0, line.slope / line.intercept),
                     prior.gemm_k0, line.relative_error);
    fitted.condition = std::max(fitted.condition, line.condition);
}

// Fits the points of a curve from `least` bytes on, where the slope is 1 / bandwidth.
Line fit_curve(const Curve& curve, Bytes least) {
    Points points;
    for (const CurvePoint& point : curve)
        if (!(point.bytes < least)) points.emplace_back(point.bytes.si(), point.time.si());
    if (points.size() < 3)
        refuse("calibrate: {} sizes measured from {} on, expected at least 3", points.size(),
               to_string(least));
    return fit_line(points);
}

void fit_memory_law(Cluster& cluster, const HostPoints& points) {
    const Line line = fit_curve(points.memory, Bytes(1048576));
    cluster.gpu.memory_bandwidth = BytesPerSecond(0);
    for (const CurvePoint& point : points.memory)
        cluster.gpu.memory_bandwidth =
            std::max(cluster.gpu.memory_bandwidth, point.bytes / point.time);
    const KernelCosts prior;
    cluster.kernel.memory_efficiency =
        state_number(*cluster.fitted, "kernel.memory_efficiency",
                     1 / line.slope / cluster.gpu.memory_bandwidth.si(), prior.memory_efficiency,
                     line.relative_error);
    // On the host the optimizer's passes are streams.
    cluster.kernel.optimizer_efficiency = state_number(
        *cluster.fitted, "kernel.optimizer_efficiency", cluster.kernel.memory_efficiency,
        prior.optimizer_efficiency, line.relative_error);
    if (!points.transposes.empty()) {
        std::vector<double> rates;
        for (const CurvePoint& point : points.transposes)
            rates.push_back(interpolate(points.memory, point.bytes) / point.time);
        cluster.kernel.transpose_efficiency = state_number(
            *cluster.fitted, "kernel.transpose_efficiency",
            cluster.kernel.memory_efficiency * median(rates), prior.transpose_efficiency, 0);
    }
    const std::string launch = state(*cluster.fitted, "kernel.launch", to_string(points.empty_task),
                                     to_string(prior.launch), 0);
    cluster.kernel.launch = parse_seconds(launch);
}

// The curves of a link: kind of op, name in plots, member.
struct LinkCurve {
    const char *kind, *name;
    Curve Link::*curve;
};
constexpr LinkCurve link_curves[] = {{"all_reduce", "all-reduce", &Link::all_reduce},
                                     {"all_gather", "all-gather", &Link::all_gather},
                                     {"reduce_scatter", "reduce-scatter", &Link::reduce_scatter},
                                     {"broadcast", "broadcast", &Link::broadcast},
                                     {"reduce", "reduce", &Link::reduce},
                                     {"all_to_all", "all-to-all", &Link::all_to_all},
                                     {"send_recv", "send/recv", &Link::send_recv}};

void fit_links(Cluster& cluster, const HostPoints& points) {
    if (points.collectives.empty()) return;
    Link& link = cluster.intra;
    for (const auto& [kind, name, curve] : link_curves) link.*curve = points.collectives.at(kind);
    const Line line = fit_curve(link.all_to_all, Bytes(65536));
    link.latency = parse_seconds(
        state(*cluster.fitted, "link.intra.latency", to_string(points.barrier), "", 0));
    link.bandwidth =
        parse_bandwidth(state(*cluster.fitted, "link.intra.bandwidth",
                              to_string(BytesPerSecond(1 / line.slope)), "", line.relative_error));
}

// Errors when every fifth point is predicted from the others.
template <typename Point, typename Predict>
HeldOutError held_out_fifth(const std::string& kind, const std::vector<Point>& points,
                            Predict predict) {
    std::vector<Point> rest, fifth;
    for (const std::size_t i : indices_of(points)) (i % 5 == 2 ? fifth : rest).push_back(points[i]);
    std::vector<double> log_errors;
    for (const Point& point : fifth)
        log_errors.push_back(std::log(predict(rest, point) / point.time));
    return summary_of(log_errors, "held-out fifth", kind);
}

HeldOutError curve_error(const std::string& kind, const Curve& curve) {
    return held_out_fifth(kind, curve, [](const Curve& rest, const CurvePoint& p) {
        return interpolate(rest, p.bytes);
    });
}

// The plot is logarithmic, so relative errors count: the line is fitted to time / bytes over 1 /
// bytes.
FittedCurve fitted_curve(const std::string& name, const Curve& curve) {
    FittedCurve fitted{name, {}, {}};
    Points points;
    for (const CurvePoint& point : curve) {
        if (!(point.bytes > Bytes(0))) continue;
        fitted.measured.emplace_back(point.bytes.si(), point.time.si());
        points.emplace_back(1 / point.bytes.si(), (point.time / point.bytes).si());
    }
    if (points.size() < 3) return fitted;
    const Line line = fit_line(points);
    for (const auto& [bytes, time] : fitted.measured)
        fitted.fitted.emplace_back(bytes, std::max(0.0, line.slope) + bytes * line.intercept);
    return fitted;
}

}  // namespace

std::string busy_warning(std::span<const SweepResult> results) {
    const auto busy =
        std::ranges::count_if(results, [](const SweepResult& r) { return !r.measurement.quiet; });
    if (busy == 0) return "";
    const bool many = real(busy) > 0.2 * real(results.size());
    return fmt::format(
        "busy: {} of {} sweeps were disturbed by other work; {}", busy, results.size(),
        many
            ? "predictions from this file may be far off, calibrate again when the machine is quiet"
            : "their quicker repetitions were used");
}

Cluster fit_host(std::span<const SweepResult> results, const std::string& processor, Bytes memory) {
    const HostPoints points = collect_points(results);
    if (points.gemms.empty() || points.memory.empty())
        throw ConfigError("calibrate: nothing measured; expected host sweeps");
    Cluster cluster;
    cluster.name = "host";
    cluster.source = "measured on this machine";
    cluster.gpus_per_node = results.front().graph.rank_count();
    cluster.launch_blocking = true;
    cluster.gpu.name = processor;
    cluster.gpu.memory = memory;
    for (const GemmPoint& p : points.gemms)
        cluster.gpu.peaks[Dtype::fp32] = std::max(cluster.gpu.peaks[Dtype::fp32], rate_of(p));
    cluster.host = no_host_costs();
    cluster.noise.op = points.op_noise;
    cluster.noise.step = noise_of_steps(unseen_host_step, points.step_noise);
    cluster.kernel.gemm_table = points.gemms;
    cluster.kernel.memory_curve = points.memory;

    cluster.fitted.emplace();
    Fitted& fitted = *cluster.fitted;
    fitted.date = results.front().measurement.date;
    fitted.sources = {"host sweeps: " + results.front().measurement.device};
    fitted.samples = points.samples;
    fit_gemm_law(cluster, points);
    fit_memory_law(cluster, points);
    fit_links(cluster, points);
    fitted.errors.push_back(held_out_fifth(
        "gemm", points.gemms, [](const std::vector<GemmPoint>& rest, const GemmPoint& p) {
            return gemm_table_time(rest, p.m, p.n, p.k, p.dtype);
        }));
    fitted.errors.push_back(curve_error("memory_pass", points.memory));
    for (const auto& [kind, curve] : points.collectives)
        fitted.errors.push_back(curve_error(kind, curve));
    return cluster;
}

std::vector<FittedCurve> fitted_curves(const Cluster& host) {
    std::vector<FittedCurve> curves{fitted_curve("memory-bound kernel", host.kernel.memory_curve)};
    for (const auto& [kind, name, curve] : link_curves)
        if (const Curve& points = host.intra.*curve; !points.empty())
            curves.push_back(fitted_curve(name, points));
    return curves;
}

std::vector<FittedCurve> fitted_rates(const Cluster& host) {
    std::vector<FittedCurve> rates;
    for (const long size : {64L, 256L, 1024L}) {
        FittedCurve rate{fmt::format("m = n = {}", size), {}, {}};
        for (const GemmPoint& p : host.kernel.gemm_table) {
            if (p.m != size || p.n != size) continue;
            const auto k = real(p.k);
            rate.measured.emplace_back(k, rate_of(p).si());
            rate.fitted.emplace_back(k, host.gpu.peaks[Dtype::fp32].si() *
                                            host.kernel.gemm_efficiency * k /
                                            (k + host.kernel.gemm_k0));
        }
        if (!rate.measured.empty()) rates.push_back(rate);
    }
    return rates;
}

}  // namespace stepcast
