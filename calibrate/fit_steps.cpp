#include "calibrate/fit_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "calibrate/fit_tables.h"
#include "model/errors.h"
#include "model/files/stamp.h"
#include "model/records/measurement.h"
#include "model/records/measurements.h"
#include "model/step.h"
#include "sim/engine/simulate.h"

namespace stepcast {
namespace {

// What the cases exercise, hence what they can tell.
struct Uses {
    bool fp8 = false, flash = false, overlap = false, exchange = false, inside = false, between = false,
         partial = false;
};

Uses uses_of(const std::vector<Case>& cases) {
    Uses uses;
    for (const Case& c : cases) {
        const Workload& w = c.experiment.workload;
        const Parallelism& p = c.experiment.parallelism;
        uses.fp8 = uses.fp8 || is_narrow(w.dtype);
        uses.flash = uses.flash || w.attention != AttentionKind::plain;
        uses.overlap = uses.overlap || (p.overlap_tp && p.tp > 1);
        const int inner =
            c.experiment.cluster.gpus_per_node / std::max(1, p.tp);  // members of a gradient ring on a node
        uses.partial = uses.partial || (p.tp > 1 && inner > 1 && p.dp > inner && p.zero < 3);
        uses.exchange = uses.exchange || (w.moe.experts > 0 && p.ep > 1);
        uses.inside = uses.inside || p.tp > 1 || p.ep > 1;
        uses.between = uses.between || c.experiment.cluster.nodes > 1;
    }
    return uses;
}

// Folds by model and layout, whatever the order of the rows.
std::string fold_of(const Case& c) {
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;
    const std::string what =
        fmt::format("{} {} {} {} {} {} {}", w.name, w.layers, p.tp, p.pp, p.cp, p.dp, p.micro_batch);
    return fmt::format("fold {}", fnv1a(what) % 5);
}

// The row's machine with the candidate's constants: its own size, memory and network stay.
Cluster machine_of(const Cluster& row, const Cluster& candidate) {
    Cluster machine = candidate;
    machine.nodes = row.nodes;
    machine.gpus_per_node = row.gpus_per_node;
    machine.gpu = row.gpu;
    machine.network = row.network;
    machine.network.partial_ring = candidate.network.partial_ring;
    machine.inter.bandwidth = row.inter.bandwidth;
    if (row.power.limit > 0) machine.power.limit = std::min(machine.power.limit, row.power.limit);
    return machine;
}

Seconds step_of(const TaskGraph& graph, const Cluster& machine) {
    const Costs costs = price(graph, machine);
    Timeline timeline;
    run(graph, costs, machine.interference, timeline);
    return timeline.end;
}

// The spread of a run about its prediction, so that p10..p90 covers eight of ten cases that the fit has not seen.
double spread_of(const std::vector<CaseResult>& cases) {
    std::vector<double> off;
    for (const CaseResult& c : cases)
        if (c.held_out > Seconds(0)) off.push_back(std::abs(std::log(c.held_out / c.measured)));
    constexpr double p90 = 1.2816;  // of the normal distribution
    return off.empty() ? 0 : quantile(off, 0.8) / p90;
}

constexpr double outlier = 6;          // times the noise
constexpr double least_outlier = 0.2;  // and off by so much: noise of a good fit is small

}  // namespace

std::vector<FitParameter> step_parameters(const Cluster& start, const std::vector<Case>& cases) {
    const Uses uses = uses_of(cases);
    const auto now = [&](const std::string& key) {
        Experiment e;
        e.cluster = start;
        return get_key(e, "cluster." + key);
    };
    std::vector<FitParameter> all;
    const auto add = [&](bool used, const std::string& key, double sigma, const std::string& lower,
                         const std::string& upper) {
        if (used && all.size() < 6) all.push_back({key, now(key), sigma, lower, upper});
    };
    add(true, "kernel.training_gemm", 0.1, "0.4", "1.2");
    add(uses.fp8, "kernel.training_fp8", 0.15, "0.3", "1.5");
    add(uses.exchange, "host.exchange_setup", 0.7, "10 us", "10 ms");
    add(uses.partial, "network.partial_ring", 0.4, "0.1", "1");
    add(uses.overlap, "interference.compute_slowdown", 0.5, "0.01", "1");
    add(true, "kernel.memory_efficiency", 0.15, "0.2", "1");
    const bool known = start.kernel.attention.tile > 0;  // from measured kernels
    add(uses.flash && !known, "kernel.attention_efficiency", 0.2, "0.1", "0.9");
    add(uses.between, "link.inter.training", 0.15, "0.2", "1.5");
    add(uses.inside, "link.intra.training", 0.15, "0.2", "1.5");
    return all;
}

FitCase step_case(const Case& what) {
    const auto experiment = std::make_shared<const Experiment>(what.experiment);
    const auto graph = std::make_shared<const TaskGraph>(build_step(*experiment, routing_of(*experiment)));
    return {what.case_id,
            "step",
            fold_of(what),
            what.measured_step,
            [experiment, graph](const Cluster& candidate) {
                return step_of(*graph, machine_of(experiment->cluster, candidate));
            },
            1,
            what.rows.empty() ? 0 : what.rows.front()};
}

StepRows read_step_rows(const std::vector<std::string>& paths, const std::string& cluster) {
    StepRows rows;
    const std::string device = read_cluster(cluster).gpu.name;
    for (const std::string& path : paths)
        for (const Comparison& c : read_comparisons(path, "")) {
            if (!c.refused_because.empty())
                ++rows.refused;
            else if (c.what.experiment.cluster.gpu.name != device)
                ++rows.other_devices;
            else
                rows.cases.push_back(c.what);
        }
    return rows;
}

StepsFit fit_steps(const Cluster& start, const std::vector<Case>& cases,
                   const std::function<void(std::string_view)>& progress) {
    if (cases.empty()) throw ConfigError("calibrate: no case of " + start.gpu.name + " can be predicted");
    std::vector<FitCase> kept;
    for (const Case& c : cases) kept.push_back(step_case(c));
    const std::vector<FitParameter> parameters = step_parameters(start, cases);
    StepsFit fitted{fit(start, parameters, kept, progress), {}};
    std::erase_if(kept, [&](const FitCase& c) {
        const double off = std::abs(std::log(c.predict(fitted.result.cluster) / c.measured));
        const bool aside = off > outlier * fitted.result.noise && off > least_outlier;
        if (aside) fitted.outliers.push_back(c.name);
        return aside;
    });
    if (!fitted.outliers.empty()) fitted.result = fit(start, parameters, kept, progress);
    for (HeldOutError& error : fitted.result.fitted_errors) fitted.result.cluster.fitted->errors.push_back(error);
    for (HeldOutError& error : fitted.result.cluster.fitted->errors)
        if (error.method == "leave-one-out") error.method = "five folds by model and layout";
    if (const double spread = spread_of(fitted.result.cases); spread > 0) fitted.result.cluster.noise.step = spread;
    if (start.fitted) fitted.result.cluster.fitted = merged(*start.fitted, *fitted.result.cluster.fitted);
    return fitted;
}

}  // namespace stepcast
