#include "sim/explain/elasticity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include "model/base/lists.h"
#include "sim/explain/cluster_parameters.h"

namespace stepcast {

WhatIf::WhatIf(const TaskGraph& graph, const Cluster& cluster)
    : graph_(graph),
      cluster_(cluster),
      classes_(graph),
      engine_(graph),
      paths_(classes_.paths(cluster)),
      prices_(classes_.price(cluster, paths_)),
      time_on_path_(classes_.size()) {
    classes_.fill(costs_, prices_, paths_, cluster);
    run(graph, costs_, cluster.interference, timeline_, Record::waits);
    path_ = critical_path(graph, costs_, timeline_);
    for (const PathSegment& s : path_)
        if (s.issue)
            calls_on_path_ += static_cast<double>(graph.host_calls(s.task));
        else
            time_on_path_[classes_.of(s.task)] += s.time;
}

PriceClasses::Paths WhatIf::paths(const Cluster& other) const {
    return same_paths(other, cluster_) ? paths_ : classes_.paths(other);
}

template <class Price>
Seconds WhatIf::repriced_path(const Price& new_price) const {
    Seconds more;
    for (std::uint32_t c = 0; c < prices_.size(); ++c)
        if (time_on_path_[c] > Seconds(0) && prices_[c] > Seconds(0))
            more += time_on_path_[c] * (new_price(c) / prices_[c] - 1);
    return more;
}

Seconds WhatIf::along_path(const Cluster& other) const {
    const PriceClasses::Paths moved = paths(other);
    return calls_on_path_ * (host_call_time(other) - host_call_time(cluster_)) +
           repriced_path([&](std::uint32_t c) { return classes_.price(c, graph_, other, moved); });
}

Seconds WhatIf::along_path(const TaskGraph& resized) const {
    if (resized.size() != graph_.size())
        throw std::logic_error("along_path: a graph of other tasks");
    return repriced_path(
        [&](std::uint32_t c) { return classes_.price(c, resized, cluster_, paths_); });
}

Seconds WhatIf::simulated(const Cluster& other) {
    const PriceClasses::Paths moved = paths(other);
    classes_.fill(other_costs_, classes_.price(other, moved), moved, other);
    if (interact(other_costs_, other.interference))
        engine_.run(other_costs_, other.interference, other_timeline_);
    else
        run_in_order(graph_, other_costs_, other_timeline_);
    return other_timeline_.end - timeline_.end;
}

Seconds WhatIf::most(const Cluster& other) {
    if (other.interference != cluster_.interference) return Seconds(INFINITY);
    const auto size = [](Seconds change) { return Seconds(std::abs(change.si())); };
    std::vector<Seconds> changes = classes_.price(other, paths(other));
    for (const std::size_t c : indices_of(changes)) changes[c] = size(changes[c] - prices_[c]);
    const Seconds call = size(host_call_time(other) - host_call_time(cluster_));
    if (call == Seconds(0) &&
        std::ranges::all_of(changes, [](Seconds c) { return c == Seconds(0); }))
        return call;
    classes_.fill(other_costs_, changes, call, other.gpu.rank_rates);
    run_in_order(graph_, other_costs_, other_timeline_);
    return other_timeline_.end;
}

std::vector<Elasticity> elasticities(WhatIf& step, const Cluster& cluster, double change,
                                     std::vector<std::string>& without_effect) {
    std::vector<Elasticity> found;
    for (const ClusterParameter& p : cluster_parameters(cluster)) {
        const Cluster other = with_scaled(cluster, p.key, 1 + change);
        const Seconds most = step.most(other);
        if (most == Seconds(0)) {
            without_effect.push_back(p.key);
            continue;
        }
        const Seconds along = step.along_path(other);
        found.push_back({p.key, p.value,
                         most > negligible * step.timeline().end ? step.simulated(other) : along,
                         along});
    }
    std::ranges::stable_sort(found, std::ranges::greater{},
                             [](const Elasticity& e) { return std::abs(e.simulated.si()); });
    return found;
}

namespace {

std::optional<Uncertainty> error_of(const ClusterParameter& p, const Cluster& cluster) {
    using Source = Uncertainty::Source;
    using Kind = ClusterParameter::Kind;
    const auto with = [&](Source source, double error) {
        return Uncertainty{p.key, p.value, source, error, {}, 0};
    };
    if (cluster.fitted)
        for (const FittedParameter& f : cluster.fitted->parameters)
            if (f.key == p.key && f.relative_error > 0)
                return with(f.determined ? Source::fitted : Source::prior, f.relative_error);
    // The rates of the other tiles are relative to this one, so it is exact by convention.
    if (p.kind == Kind::stated || p.kind == Kind::table || p.key == "kernel.gemm_tile_256")
        return std::nullopt;
    return with(Source::assumed, p.kind == Kind::time ? assumed_time_error : assumed_share_error);
}

Seconds half_difference(Seconds up, Seconds down) {
    return Seconds(std::abs((up - down).si()) / 2);
}

struct Neighbours {
    Cluster up, down;  // by one error
};
Neighbours neighbours_of(const Cluster& cluster, const Uncertainty& u) {
    const double factor = std::exp(u.relative_error);
    return {with_scaled(cluster, u.key, factor), with_scaled(cluster, u.key, 1 / factor)};
}

// If the parameter does not change the path, the simulated change is scaled in proportion.
Seconds estimate(const WhatIf& step, const Elasticity& e, const Neighbours& n, double steps) {
    if (e.along_path == Seconds(0)) return Seconds(std::abs(e.simulated.si()) * steps);
    return std::abs(e.simulated / e.along_path) *
           half_difference(step.along_path(n.up), step.along_path(n.down));
}

void sort_by_width(std::vector<Uncertainty>& found) {
    std::ranges::stable_sort(found, std::ranges::greater{}, &Uncertainty::widening);
}

}  // namespace

std::vector<Uncertainty> uncertainties(WhatIf& step, const Cluster& cluster,
                                       const std::vector<Elasticity>& elasticities, double change) {
    std::map<std::string_view, const Elasticity*> by_key;
    for (const Elasticity& e : elasticities) by_key[e.key] = &e;
    std::vector<Uncertainty> found;
    for (const ClusterParameter& p : cluster_parameters(cluster)) {
        const auto at = value_in(by_key, p.key);
        auto u = at ? error_of(p, cluster) : std::nullopt;
        if (!u) continue;
        u->widening = estimate(step, **at, neighbours_of(cluster, *u),
                               u->relative_error / std::log1p(change));
        found.push_back(*u);
    }
    sort_by_width(found);
    for (std::size_t i = 0; i < std::min<std::size_t>(3, found.size()); ++i) {
        const Neighbours n = neighbours_of(cluster, found[i]);
        found[i].widening = half_difference(step.simulated(n.up), step.simulated(n.down));
    }
    sort_by_width(found);
    double variance = 0;
    for (const Uncertainty& u : found) variance += u.widening.si() * u.widening.si();
    for (Uncertainty& u : found)
        u.share = variance > 0 ? u.widening.si() * u.widening.si() / variance : 0;
    return found;
}

}  // namespace stepcast
