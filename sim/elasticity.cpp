#include "sim/elasticity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace stepcast {

WhatIf::WhatIf(const TaskGraph& graph, const Cluster& cluster)
    : graph_(graph),
      cluster_(cluster),
      classes_(graph),
      prices_(classes_.price(cluster)),
      costs_(classes_.costs(prices_, cluster)),
      time_on_path_(classes_.size()) {
    run(graph, costs_, cluster.interference, timeline_);
    bindings_ = stepcast::bindings(graph, costs_, timeline_);
    path_ = critical_path(graph, costs_, timeline_, bindings_);
    for (const PathSegment& s : path_)
        if (s.issue)
            calls_on_path_ += static_cast<double>(graph.host_calls(s.task));
        else
            time_on_path_[classes_.of(s.task)] += s.time;
}

Seconds WhatIf::along_path(const Cluster& other) const {
    const std::vector<Seconds> prices = classes_.price(other);
    Seconds more = calls_on_path_ * (other.host.call - cluster_.host.call);
    for (std::size_t c = 0; c < prices.size(); ++c)
        if (prices_[c] > Seconds(0)) more += time_on_path_[c] * (prices[c] / prices_[c] - 1);
    return more;
}

Seconds WhatIf::simulated(const Cluster& other) const {
    Timeline timeline;
    run(graph_, classes_.costs(classes_.price(other), other), other.interference, timeline);
    return timeline.end - timeline_.end;
}

bool WhatIf::changes(const Cluster& other) const {
    return other.host.call != cluster_.host.call || other.interference != cluster_.interference ||
           classes_.price(other) != prices_;
}

std::vector<Elasticity> elasticities(const WhatIf& step, const Cluster& cluster, double change,
                                     std::vector<std::string>& without_effect) {
    std::vector<Elasticity> found;
    for (const ClusterParameter& p : cluster_parameters(cluster)) {
        const Cluster other = with_scaled(cluster, p.key, 1 + change);
        if (step.changes(other))
            found.push_back({p.key, p.value, step.simulated(other), step.along_path(other)});
        else
            without_effect.push_back(p.key);
    }
    std::ranges::stable_sort(found, [](const Elasticity& a, const Elasticity& b) {
        return std::abs(a.simulated.si()) > std::abs(b.simulated.si());
    });
    return found;
}

namespace {

std::optional<Uncertainty> error_of(const ClusterParameter& p, const Cluster& cluster) {
    using Source = Uncertainty::Source;
    if (cluster.fitted)
        for (const FittedParameter& f : cluster.fitted->parameters)
            if (f.key == p.key && f.relative_error > 0)
                return Uncertainty{p.key,      p.value, f.determined ? Source::fitted : Source::prior, f.relative_error,
                                   Seconds(0), 0};
    using Kind = ClusterParameter::Kind;
    // The rates of the other tiles are relative to this one, so that it is known by convention.
    if (p.kind == Kind::datasheet || p.kind == Kind::table || p.key == "kernel.gemm_tile_256") return std::nullopt;
    return Uncertainty{p.key,           p.value,
                       Source::assumed, p.kind == Kind::time ? assumed_time_error : assumed_share_error,
                       Seconds(0),      0};
}

// Of a parameter that moves the step by less than this share of the widest first-order estimate the estimate is kept.
constexpr double worth_simulating = 0.05;

}  // namespace

std::vector<Uncertainty> uncertainties(const WhatIf& step, const Cluster& cluster,
                                       const std::vector<Elasticity>& elasticities, double change) {
    std::map<std::string, Seconds> moved;
    for (const Elasticity& e : elasticities) moved[e.key] = e.simulated;
    std::vector<Uncertainty> found;
    Seconds widest;
    for (const ClusterParameter& p : cluster_parameters(cluster)) {
        const auto at = moved.find(p.key);
        auto uncertainty = at == moved.end() ? std::nullopt : error_of(p, cluster);
        if (!uncertainty) continue;
        uncertainty->widening = std::abs(at->second.si()) * Seconds(uncertainty->relative_error / std::log1p(change));
        widest = std::max(widest, uncertainty->widening);
        found.push_back(*uncertainty);
    }
    double variance = 0;
    for (Uncertainty& u : found) {
        if (u.widening > worth_simulating * widest) {
            const double factor = std::exp(u.relative_error);
            const Seconds up = step.simulated(with_scaled(cluster, u.key, factor));
            const Seconds down = step.simulated(with_scaled(cluster, u.key, 1 / factor));
            u.widening = Seconds(std::abs((up - down).si()) / 2);
        }
        variance += u.widening.si() * u.widening.si();
    }
    for (Uncertainty& u : found) u.share = variance > 0 ? u.widening.si() * u.widening.si() / variance : 0;
    std::ranges::stable_sort(found, [](const Uncertainty& a, const Uncertainty& b) { return a.widening > b.widening; });
    return found;
}

}  // namespace stepcast
