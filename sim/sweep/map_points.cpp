#include "sim/sweep/map_points.h"

#include <algorithm>
#include <atomic>

#include "model/base/numbers.h"
#include "sim/on_threads.h"
#include "sim/sweep/search.h"

namespace stepcast {
namespace {

constexpr std::size_t most_drawn_points = 12'000;  // more would slow down the page

// Walks all points once more.
MapCollector walked(const SweepSpace& space, const SweepQuestion& question, int threads) {
    MapCollectors collectors(space, question.objective == Objective::tokens);
    const auto commons = std::make_shared<SweepCommons>(&collectors);
    std::atomic<std::uint64_t> next = 0;
    const auto work = [&] {
        SweepWorker worker(space, question, commons);
        for (std::uint64_t item = next++; item < space.item_count(); item = next++)
            worker.run({.items = {item}});
    };
    on_threads(threads, work);
    return collectors.together();
}

// Leaves out keys with only one value. The values of the other keys are numbered in rising order.
void add_keys(SweepMap& map, const SweepSpace& space, const std::vector<VariedKey>& keys,
              const std::vector<AlongKeys>& at) {
    for (std::size_t k = 0; k < keys.size(); ++k) {
        std::vector<std::uint32_t> values;
        for (const AlongKeys& of_point : at) values.push_back(of_point[k]);
        std::ranges::sort(values);
        values.erase(std::ranges::unique(values).begin(), values.end());
        if (values.size() < 2) continue;
        MapKey& named = map.keys.emplace_back(MapKey{keys[k].name, {}});
        for (const std::uint32_t value : values)
            named.values.push_back(space.value_at(keys[k], as_int(value)));
        for (std::size_t i = 0; i < at.size(); ++i)
            map.points[i].at.push_back(static_cast<std::uint16_t>(
                std::ranges::lower_bound(values, at[i][k]) - values.begin()));
    }
}

void add_limits(SweepMap& map, int joined) {
    int first = 255, last = 0;
    for (const MapPoint& p : map.points) {
        first = std::min(first, memory_limit_of(p.peak));
        last = std::max(last, memory_limit_of(p.peak));
    }
    for (int number = first / joined * joined + joined - 1; number < last + joined;
         number += joined)
        map.limits.push_back(memory_limit(number));
}

}  // namespace

std::optional<SweepMap> sweep_map(const SweepSpace& space, const SweepQuestion& question,
                                  const SweepSearch& search, int threads) {
    MapCollector found = search.mapped();
    if (found.keys().size() < 2) return std::nullopt;
    const std::uint64_t legal = search.screened().legal;
    int joined = 1;
    std::map<PointId, MapCandidate> points;
    if (legal <= most_mapped) {
        if (found.legal != legal) found = walked(space, question, threads);
        points = found.best(most_drawn_points, joined);
    }
    for (const auto& [id, known] : search.simulated())
        if (!points.contains(id))
            points.emplace(id, MapCandidate{0, known.first,
                                            found.positions(id, plan_of(space.experiment_of(id)))});
    SweepMap map{.keys = {},
                 .points = {},
                 .limits = {},
                 .of_token = question.objective == Objective::tokens};
    std::vector<AlongKeys> at;
    for (const auto& [id, best] : points) {
        const auto known = search.simulated().find(id);
        const bool simulated = known != search.simulated().end();
        const Seconds step = simulated ? known->second.second : best.candidate.estimate;
        map.points.push_back({.at = {},
                              .step = step,
                              .peak = best.candidate.peak,
                              .tokens_per_second = best.candidate.tokens / step.si(),
                              .ranks = best.candidate.ranks,
                              .simulated = simulated});
        at.push_back(best.at);
    }
    add_keys(map, space, found.keys(), at);
    if (map.keys.size() < 2) return std::nullopt;
    add_limits(map, joined);
    return map;
}

}  // namespace stepcast
