#include "calibrate/fit_moe.h"

#include <cmath>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "calibrate/fit_parameter.h"
#include "import/logs/import.h"
#include "import/logs/run_summary.h"
#include "import/tables/recorded.h"
#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/graph/step_times.h"
#include "model/input/check_experiment.h"
#include "model/step.h"
#include "sim/costs/costs.h"
#include "sim/engine/simulate.h"

namespace stepcast {
namespace {

// Expected scatter of a case, in units of the noise of a run with known routing (about 2 %). GA
// scatters by 8 %: its time depends on bytes per peer, which block totals do not tell. The
// forward's wait for the host differs by 30 % between ranks and runs. A run with unknown routing
// adds the scatter of its own draws (step_spread).
constexpr double run_noise = 0.02;
constexpr double spread_known = 1, spread_scatter = 4, spread_wait = 10;

double step_spread(double routing_scatter) {
    return std::hypot(spread_known, routing_scatter / run_noise);
}

std::vector<Sample> medians_of(const std::vector<Sample>& run) {
    std::vector<Sample> medians = where(run, [](const Sample& row) { return row.step == -1; });
    if (!medians.empty()) return medians;
    Summaries computed = summaries(run);
    if (!computed.refused.empty()) throw ConfigError(computed.refused.front());
    return std::move(computed.rows);
}

Experiment experiment_of(const Sample& row, const Cluster& cluster) {
    const auto refuse = [&](const std::string& what) {
        throw ConfigError(fmt::format("{}: {}", row.run_id, what));
    };
    const std::optional<LayerShape> shape = parse_model_name(row.model);
    if (!shape)
        refuse(
            fmt::format("model \"{}\" is not a layer this fit knows; expected, for example, "
                        "moe_layer-1024x4096-fp16-8192-top2",
                        row.model));
    if (row.ranks != rank_count(cluster))
        refuse(fmt::format("measured on {} ranks, but cluster {} has {}", row.ranks, cluster.name,
                           rank_count(cluster)));
    Experiment e;
    e.name = row.run_id;
    e.cluster = cluster;
    e.workload.name = "moe_layer";
    e.workload.hidden = shape->hidden;
    e.workload.ffn = shape->ffn;
    e.workload.seq = shape->tokens;
    e.workload.dtype = parse_name<Dtype>(shape->dtype);
    e.workload.moe = {
        .experts = row.experts, .top_k = shape->top_k, .capacity_factor = 0, .shared_experts = 0};
    e.parallelism.dp = e.parallelism.ep = row.ranks;
    try {
        e.parallelism.moe_system = parse_name<MoeSystem>(row.system);
        check_experiment(e);
    } catch (const ConfigError& error) {
        refuse(error.what());
    }
    return e;
}

// Adds the cases of one run; all of them share one model.
void add_cases(const std::vector<Sample>& run, const Cluster& cluster,
               std::vector<FitCase>& cases) {
    const std::vector<Sample> medians = medians_of(run);
    const std::optional<Routing> routing = recorded_routing(medians);
    const auto model = std::make_shared<MoeRunModel>(experiment_of(run.front(), cluster), routing);
    const MoeRunTimes before = model->times(cluster);  // on the cluster that the fit starts from
    const auto add = [&](const Sample& row, const std::string& kind, double spread,
                         const auto& part) {
        const std::string who =
            row.rank < 0 ? row.phase : fmt::format("{} rank {}", row.phase, row.rank);
        cases.push_back(
            {fmt::format("{} {}", row.run_id, who), kind, row.run_id, Seconds(row.value),
             [model, part](const Cluster& c) { return part(model->times(c), c); }, spread});
    };
    for (const Sample& row : medians) {
        if (row.unit != "s") continue;
        for (const auto& [phase, part] : {std::pair("step", &MoeRunTimes::step),
                                          {"forward", &MoeRunTimes::forward},
                                          {"backward", &MoeRunTimes::backward}})
            if (row.phase == phase)
                add(row, phase, step_spread((before.*part).scatter),
                    [part = part](const MoeRunTimes& t, const Cluster&) { return (t.*part).time; });
        if (!routing) continue;
        for (const auto& [kernel, spread] :
             {std::pair("AG", spread_known), std::pair("GA", spread_scatter)})
            for (const Phase phase : {Phase::forward, Phase::backward})
                if (row.rank >= 0 && row.phase == fmt::format("{}.{}", kernel, to_string(phase)))
                    add(row, kernel, spread,
                        [key = MoeKernel{kernel, phase, row.rank}](
                            const MoeRunTimes& t, const Cluster&) { return t.kernel(key); });
        if (row.phase == "wait_time")
            add(row, "assignment", spread_wait,
                [](const MoeRunTimes&, const Cluster& c) { return c.host.assignment; });
        if (row.phase == "weight_grad.median")
            add(row, "weight_grad", spread_known,
                [ranks = row.ranks](const MoeRunTimes& t, const Cluster&) {
                    std::vector<double> times;
                    for (int rank = 0; rank < ranks; ++rank)
                        times.push_back(t.kernel({"wgrad1", Phase::backward, rank}).si());
                    return Seconds(median(times));
                });
    }
}

// Links are measured apart from the runs, and the start cluster states those values: they are the
// priors, or, if the cluster was fitted before, the priors of that fit.
std::vector<FitParameter> with_link_priors(std::vector<FitParameter> parameters,
                                           const Cluster& start) {
    for (FitParameter& parameter : parameters) {
        if (!parameter.key.starts_with("link.")) continue;
        parameter.prior = text_at(start, parameter.key);
        std::erase(parameter.prior, '"');
        if (parameter.key.ends_with(".bandwidth")) {
            parameter.lower = "1 MB/s";
            parameter.upper = "100 TB/s";
        }
        if (!start.fitted) continue;
        for (const FittedParameter& earlier : start.fitted->parameters)
            if (earlier.key == parameter.key) parameter.prior = earlier.prior;
    }
    return parameters;
}

MoeRunTimes::Part part_of(const std::vector<double>& draws) {
    return {Seconds(median(draws)), 0.5 * std::log(quantile(draws, 0.84) / quantile(draws, 0.16))};
}

}  // namespace

std::vector<FitCase> moe_cases(const std::vector<Sample>& rows, const Cluster& cluster) {
    std::vector<FitCase> cases;
    for (const std::vector<Sample>& run : runs_of(rows)) add_cases(run, cluster, cases);
    return cases;
}

FitResult fit_moe(const Cluster& start, const std::vector<Sample>& rows, const Progress& progress) {
    return fit(start,
               {.parameters = with_link_priors(fit_priors({"moe_layers"}), start),
                .cases = moe_cases(rows, start)},
               progress);
}

Seconds MoeRunTimes::kernel(const MoeKernel& key) const {
    const auto at = value_in(kernels, key);
    if (!at)
        throw std::logic_error("moe fit: the graph has no kernel " + std::get<0>(key) +
                               " on rank " + std::to_string(std::get<2>(key)));
    return *at;
}

MoeRunModel::MoeRunModel(Experiment experiment, const std::optional<Routing>& routing)
    : routing_known_(routing.has_value()) {
    if (routing) {
        graphs_.push_back(build_step(experiment, *routing));
        return;
    }
    experiment.routing.kind = RoutingSpec::Kind::random_gate;
    for (int draw = 0; draw < gate_draws; ++draw)
        graphs_.push_back(build_step(experiment, routing_of(experiment, draw)));
}

const MoeRunTimes& MoeRunModel::times(const Cluster& cluster) {
    if (last_ == cluster) return times_;
    std::vector<double> step, forward, backward;
    times_.kernels.clear();
    for (const TaskGraph& graph : graphs_) {
        const Costs costs = price(graph, cluster);
        Timeline timeline;
        run_in_order(graph, costs, timeline);
        const StepTimes times = step_times(graph, timeline, 0);
        step.push_back(times.step.si());
        forward.push_back(times.forward.si());
        backward.push_back(times.backward.si());
        if (!routing_known_) continue;
        for (TaskId t = 0; t < graph.size(); ++t) {
            const Place place = graph.places(t).front();
            if (place.lane() != Lane::compute) continue;
            times_.kernels[{std::string(graph.name(t)), graph.phase(t), place.rank()}] +=
                timeline.finish[t] - timeline.start[t];
        }
    }
    times_.step = part_of(step);
    times_.forward = part_of(forward);
    times_.backward = part_of(backward);
    last_ = cluster;
    return times_;
}

}  // namespace stepcast
