#include "sim/sweep/map_points.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace stepcast {
namespace {

using namespace literals;

constexpr std::uint64_t most_walked = 6'000'000;  // legal points: half a minute on two cores
constexpr std::size_t most_points = 12'000;       // of a page that opens at once
constexpr std::size_t most_keys = 16;
constexpr double limits_an_octave = 8;  // of memory: steps of 9 %
constexpr Bytes least_limit = 1_MiB;

int limit_of(Bytes peak) {
    return std::clamp(static_cast<int>(std::ceil(limits_an_octave * std::log2(peak / least_limit) - 1e-9)), 0, 255);
}
Bytes limit(int number) { return least_limit * std::exp2(number / limits_an_octave); }

using AlongKeys = std::array<std::uint32_t, most_keys>;  // along each key

struct Best {
    double score = 0;
    Candidate candidate;
    AlongKeys at{};
    [[nodiscard]] bool beats(const Best& o) const { return std::pair(score, candidate.id) < std::pair(o.score, o.candidate.id); }
};
// By pair of keys, positions along both, and limit.
using BestOf = std::unordered_map<std::uint64_t, Best>;

void offer(BestOf& all, std::uint64_t place, const Best& best) {
    const auto [at, fresh] = all.try_emplace(place, best);
    if (!fresh && best.beats(at->second)) at->second = best;
}

class MapWalk {
public:
    MapWalk(const SweepSpace& space, const SweepQuestion& question) : space_(space), question_(question), keys_(space.varied_keys()) {
        if (keys_.size() > most_keys) keys_.resize(most_keys);
        for (const std::string& key : keys_) levels_.push_back(split_index(key));
    }
    [[nodiscard]] AlongKeys positions(PointId id, const Parallelism& split) const {
        AlongKeys at{};
        for (std::size_t k = 0; k < keys_.size(); ++k)
            at[k] = static_cast<std::uint32_t>(levels_[k] < split_key_count ? split_fields()[levels_[k]].get(split)
                                                                            : space_.position(keys_[k], id.base, split));
        return at;
    }
    void note(const Candidate& c, const Parallelism& split, BestOf& found) const {
        if (c.estimate <= Seconds(0)) return;
        const bool tokens = question_.objective == Objective::tokens;
        const Best best{tokens ? c.estimate.si() / c.tokens : c.estimate.si(), c, positions(c.id, split)};
        const auto along = [&](std::size_t key) { return std::uint64_t{best.at[key] & 0xfffffU}; };
        const auto memory = static_cast<std::uint64_t>(limit_of(c.peak));
        std::uint64_t pair = 0;
        for (std::size_t a = 0; a < keys_.size(); ++a)
            for (std::size_t b = a + 1; b < keys_.size(); ++b, ++pair)
                offer(found, pair << 48 | along(a) << 28 | along(b) << 8 | memory, best);
    }
    [[nodiscard]] BestOf all(int threads) const {
        std::atomic<std::uint64_t> next = 0;
        std::mutex mutex;
        BestOf all;
        const auto work = [&] {
            SweepWorker worker(space_, question_);
            BestOf own;
            for (std::uint64_t item = next++; item < space_.item_count(); item = next++)
                worker.visit_feasible(item, [&](const Candidate& c, const Parallelism& split) { note(c, split, own); });
            const std::lock_guard lock(mutex);
            for (const auto& [place, best] : own) offer(all, place, best);
        };
        const int count = threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
        std::vector<std::jthread> others;
        for (int t = 1; t < count; ++t) others.emplace_back(work);
        work();
        others.clear();
        return all;
    }
    [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }

private:
    const SweepSpace& space_;
    const SweepQuestion& question_;
    std::vector<std::string> keys_;
    std::vector<std::size_t> levels_;
};

// Fewer limits where the points of all are too many.
std::map<PointId, Best> chosen(BestOf best, int& limits_joined) {
    for (limits_joined = 1;; limits_joined *= 2) {
        std::map<PointId, Best> points;
        for (const auto& [place, b] : best) points.emplace(b.candidate.id, b);
        if (points.size() <= most_points || limits_joined >= 256) return points;
        BestOf coarse;
        for (const auto& [place, b] : best) offer(coarse, (place & ~std::uint64_t{0xff}) | ((place & 0xff) / 2), b);
        best = std::move(coarse);
    }
}

// Keys that one value is left of say nothing; the others number their values in rising order.
void add_keys(SweepMap& map, const SweepSpace& space, const std::vector<std::string>& keys, const std::vector<AlongKeys>& at) {
    for (std::size_t k = 0; k < keys.size(); ++k) {
        std::vector<std::uint32_t> values;
        for (const AlongKeys& of_point : at) values.push_back(of_point[k]);
        std::ranges::sort(values);
        values.erase(std::ranges::unique(values).begin(), values.end());
        if (values.size() < 2) continue;
        MapKey& named = map.keys.emplace_back(MapKey{keys[k], {}});
        for (const std::uint32_t value : values) named.values.push_back(space.value_at(keys[k], static_cast<int>(value)));
        for (std::size_t i = 0; i < at.size(); ++i)
            map.points[i].at.push_back(static_cast<std::uint16_t>(std::ranges::lower_bound(values, at[i][k]) - values.begin()));
    }
}

void add_limits(SweepMap& map, int joined) {
    int first = 255, last = 0;
    for (const MapPoint& p : map.points) {
        first = std::min(first, limit_of(p.peak));
        last = std::max(last, limit_of(p.peak));
    }
    for (int number = first / joined * joined + joined - 1; number < last + joined; number += joined) map.limits.push_back(limit(number));
}

}  // namespace

std::optional<SweepMap> sweep_map(const SweepSpace& space, const SweepQuestion& question, const SweepSearch& search, int threads) {
    const MapWalk walk(space, question);
    if (walk.keys().size() < 2) return std::nullopt;
    int joined = 1;
    std::map<PointId, Best> points;
    if (search.screened().legal <= most_walked) points = chosen(walk.all(threads), joined);
    for (const auto& [id, found] : search.simulated())
        if (!points.contains(id)) points.emplace(id, Best{0, found.first, walk.positions(id, space.experiment_of(id).parallelism)});
    SweepMap map{.keys = {}, .points = {}, .limits = {}, .of_token = question.objective == Objective::tokens};
    std::vector<AlongKeys> at;
    for (const auto& [id, best] : points) {
        const auto known = search.simulated().find(id);
        const bool simulated = known != search.simulated().end();
        const Seconds step = simulated ? known->second.second : best.candidate.estimate;
        map.points.push_back({.at = {}, .step = step, .peak = best.candidate.peak, .tokens_per_second = best.candidate.tokens / step.si(),
                              .ranks = best.candidate.ranks, .simulated = simulated});
        at.push_back(best.at);
    }
    add_keys(map, space, walk.keys(), at);
    if (map.keys.size() < 2) return std::nullopt;
    add_limits(map, joined);
    return map;
}

}  // namespace stepcast
