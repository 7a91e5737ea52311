#include "sim/sweep/map_collector.h"

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

constexpr double limits_an_octave = 8;
const Bytes least_limit = parse_bytes("1 MiB");
constexpr std::uint64_t limit_bits = 8, along_bits = 20;

bool beats(double score, PointId id, double other, PointId of_other) {
    return score < other || (score == other && id < of_other);
}

}  // namespace

int memory_limit_of(Bytes peak) {
    return std::clamp(
        static_cast<int>(std::ceil(limits_an_octave * std::log2(peak / least_limit) - 1e-9)), 0,
        255);
}
Bytes memory_limit(int number) { return least_limit * std::exp2(number / limits_an_octave); }

MapCollector::MapCollector(const SweepSpace& space, bool of_token)
    : space_(&space), of_token_(of_token), keys_(space.varied()), places_(1 << 12) {
    if (keys_.size() > most_map_keys) keys_.resize(most_map_keys);
}

AlongKeys MapCollector::positions(PointId id, const ParallelPlan& split) const {
    AlongKeys at{};
    for (std::size_t k = 0; k < keys_.size(); ++k)
        at[k] = static_cast<std::uint32_t>(space_->position(keys_[k], id.base, split));
    return at;
}

// The place with this number, or the empty place where it belongs.
MapCollector::Place& MapCollector::place(std::uint64_t number) {
    const std::size_t mask = places_.size() - 1;
    std::size_t at = (number * 0x9E3779B97F4A7C15ull) >> 20 & mask;
    while (places_[at].number != 0 && places_[at].number != number) at = (at + 1) & mask;
    return places_[at];
}

MapCollector::Place* MapCollector::won(std::uint64_t number, double score, PointId id) {
    Place* known = &place(number);
    if (known->number != 0) return beats(score, id, known->score, known->id) ? known : nullptr;
    if (2 * ++used_ <= places_.size()) return known;
    std::vector<Place> before(2 * places_.size());
    before.swap(places_);
    for (const Place& p : before)
        if (p.number != 0) place(p.number) = p;
    return &place(number);
}

void MapCollector::note(const Candidate& c, const ParallelPlan& split) {
    if (c.estimate <= Seconds(0)) return;
    const double score = of_token_ ? c.estimate.si() / c.tokens : c.estimate.si();
    const AlongKeys at = positions(c.id, split);
    const auto limit = static_cast<std::uint64_t>(memory_limit_of(c.peak));
    const auto along = [&](std::size_t key) {
        return std::uint64_t{at[key] & ((1U << along_bits) - 1)};
    };
    bool kept = false;
    std::uint64_t pair = 1;  // so that no number is 0
    for (std::size_t a = 0; a < keys_.size(); ++a)
        for (std::size_t b = a + 1; b < keys_.size(); ++b, ++pair) {
            const std::uint64_t number =
                ((pair << along_bits | along(a)) << along_bits | along(b)) << limit_bits | limit;
            Place* const known = won(number, score, c.id);
            if (!known) continue;
            if (!std::exchange(kept, true)) points_.push_back({score, c, at});
            *known = {number, score, c.id, static_cast<std::uint32_t>(points_.size() - 1)};
        }
}

void MapCollector::add(const MapCollector& other) {
    legal += other.legal;
    for (const Place& p : other.places_) {
        Place* const known = p.number != 0 ? won(p.number, p.score, p.id) : nullptr;
        if (!known) continue;
        points_.push_back(other.points_[p.point]);
        *known = {p.number, p.score, p.id, static_cast<std::uint32_t>(points_.size() - 1)};
    }
}

std::map<PointId, MapCandidate> MapCollector::best(std::size_t most, int& limits_joined) const {
    std::map<std::uint64_t, const MapCandidate*> by_place;
    for (const Place& p : places_)
        if (p.number != 0) by_place.emplace(p.number, &points_[p.point]);
    for (limits_joined = 1;; limits_joined *= 2) {
        std::map<PointId, MapCandidate> points;
        for (const auto& [number, point] : by_place) points.emplace(point->candidate.id, *point);
        if (points.size() <= most || limits_joined >= 1 << limit_bits) return points;
        std::map<std::uint64_t, const MapCandidate*> coarse;
        for (const auto& [number, point] : by_place) {
            constexpr std::uint64_t limits = (1U << limit_bits) - 1;
            const MapCandidate*& known = coarse[(number & ~limits) | ((number & limits) / 2)];
            if (!known ||
                beats(point->score, point->candidate.id, known->score, known->candidate.id))
                known = point;
        }
        by_place = std::move(coarse);
    }
}

}  // namespace stepcast
