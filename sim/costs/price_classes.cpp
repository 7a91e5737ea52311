#include "sim/costs/price_classes.h"

#include <algorithm>

#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "sim/costs/op_costs.h"

namespace stepcast {
namespace {

constexpr std::uint32_t no_class = ~std::uint32_t{0};

// An op on one place or with a stated group costs the same wherever it runs. For other ops the
// ranks count.
bool same_participants(const TaskGraph& graph, TaskId a, TaskId b) {
    if (graph.group_id(a) != graph.group_id(b)) return false;
    const auto p = graph.places(a), q = graph.places(b);
    if (graph.group_id(a) != 0 || (p.size() == 1 && q.size() == 1)) return true;
    return std::ranges::equal(p, q, {}, &Place::rank, &Place::rank);
}

}  // namespace

PriceClasses::PriceClasses(const TaskGraph& graph) : graph_(graph) {
    class_of_.reserve(graph.size());
    // `last` has the class last met for each op and phase, nearly always the right one. `before`
    // chains the others of that op and phase.
    std::vector<std::uint32_t> last(graph.ops().size() * phase_count, no_class), before;
    for (TaskId t = 0; t < graph.size(); ++t) {
        std::uint32_t& head = last[graph.op_id(t) * phase_count + as_index(graph.phase(t))];
        std::uint32_t found = head;
        while (found != no_class && !same_participants(graph, examples_[found], t))
            found = before[found];
        if (found == no_class) {
            found = static_cast<std::uint32_t>(examples_.size());
            examples_.push_back(t);
            before.push_back(head);
            head = found;
        }
        class_of_.push_back(found);
    }
}

PriceClasses::Paths PriceClasses::paths(const Cluster& cluster) const {
    Paths paths;
    RingPaths known(cluster);
    for (const TaskId t : examples_)
        if (const GroupId group = graph_.group_id(t); group != 0 && !paths.contains(group))
            paths.emplace(group, known.of(graph_.group(group)));
    return paths;
}

Seconds PriceClasses::price(std::uint32_t c, const TaskGraph& sizes, const Cluster& cluster,
                            const Paths& paths) const {
    const TaskId t = examples_[c];
    const GroupId group = graph_.group_id(t);
    const Seconds time = group == 0
                             ? op_time(sizes.op(t), graph_.phase(t), graph_.places(t), cluster)
                             : time_in_step(sizes.op(t), paths.at(group), cluster);
    // Rates that are legal one by one can be absurd together, and sums of such times mean nothing.
    constexpr Seconds longest(1e8);
    if (!(time >= Seconds(0) && time < longest))
        refuse(
            "task \"{}\" would take {:.3g} s on cluster {}; expected less than {:.0e} "
            "s: one of its "
            "rates is far too low, or a time too long",
            graph_.name(t), time.si(), cluster.name, longest.si());
    return time;
}

std::vector<Seconds> PriceClasses::price(const Cluster& cluster, const Paths& paths) const {
    std::vector<Seconds> prices;
    prices.reserve(size());
    for (std::uint32_t c = 0; c < size(); ++c) prices.push_back(price(c, graph_, cluster, paths));
    return prices;
}

void PriceClasses::fill(Costs& costs, std::span<const Seconds> prices, const Paths& paths,
                        const Cluster& cluster) const {
    fill(costs, prices, host_call_time(cluster), cluster.gpu.rank_rates);
    costs.links = links(prices, paths, cluster);
}

void PriceClasses::fill(Costs& costs, std::span<const Seconds> prices, Seconds call,
                        std::span<const double> rank_rates) const {
    costs.duration.resize(class_of_.size());
    costs.issue.resize(class_of_.size());
    for (TaskId t = 0; t < class_of_.size(); ++t) {
        costs.duration[t] = prices[class_of_[t]];
        if (const Place place = graph_.places(t).front();
            !rank_rates.empty() && place.lane() == Lane::compute)
            costs.duration[t] = costs.duration[t] / rank_rates[as_index(place.rank())];
        costs.issue[t] = static_cast<double>(graph_.host_calls(t)) * call;
    }
}

}  // namespace stepcast
