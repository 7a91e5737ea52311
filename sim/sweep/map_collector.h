// What a sweep's interactive map is made of, collected where points are screened: for every two varied keys and every limit
// of memory the best point of each pair of values.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "sim/sweep/space.h"

namespace stepcast {

// A point that may be among the wanted ones.
struct Candidate {
    PointId id;
    Seconds lower, estimate;
    Bytes peak;
    double tokens = 0, price = 0;  // of a step; of all ranks, a second
    int ranks = 0;
    friend bool operator==(const Candidate&, const Candidate&) = default;
};

inline constexpr std::uint64_t most_mapped = 6'000'000;  // legal points
inline constexpr std::size_t most_map_keys = 16;
using AlongKeys = std::array<std::uint32_t, most_map_keys>;  // along each key

// Limits of memory rise in steps of 9 %.
int memory_limit_of(Bytes peak);
Bytes memory_limit(int number);

struct MapCandidate {
    double score = 0;
    Candidate candidate;
    AlongKeys at{};
};

// One thread's.
class MapCollector {
public:
    MapCollector(const SweepSpace& space, bool of_token);
    void note(const Candidate& candidate, const Parallelism& split);
    void add(const MapCollector& other);
    [[nodiscard]] AlongKeys positions(PointId id, const Parallelism& split) const;
    [[nodiscard]] const std::vector<VariedKey>& keys() const { return keys_; }
    // Each point that is the best of some place; at most `most`, with fewer limits where they are more: so many joined.
    [[nodiscard]] std::map<PointId, MapCandidate> best(std::size_t most, int& limits_joined) const;

    std::uint64_t legal = 0;  // points met, these that do not fit among them

private:
    // By pair of keys, positions along both, and limit: a number above 0. Open addressing, as most of a walk is spent here.
    struct Place {
        std::uint64_t number = 0;
        double score = 0;
        PointId id;
        std::uint32_t point = 0;  // in points_
    };
    Place& place(std::uint64_t number);
    // The place of this number where this point beats what is there; nullptr where it does not.
    Place* won(std::uint64_t number, double score, PointId id);

    const SweepSpace* space_;
    bool of_token_;
    std::vector<VariedKey> keys_;
    std::vector<Place> places_;
    std::size_t used_ = 0;
    std::vector<MapCandidate> points_;
};

// Of all threads of a process. Stopped where the points of a space become too many.
class MapCollectors {
public:
    MapCollectors(const SweepSpace& space, bool of_token) : space_(space), of_token_(of_token) {}
    MapCollector& add() {
        const std::lock_guard lock(mutex_);
        return all_.emplace_back(space_, of_token_);
    }
    void stop() { stopped_ = true; }
    [[nodiscard]] bool stopped() const { return stopped_; }
    // When no thread collects any more.
    [[nodiscard]] MapCollector together() const {
        MapCollector sum(space_, of_token_);
        for (const MapCollector& one : all_) sum.add(one);
        return sum;
    }

private:
    const SweepSpace& space_;
    bool of_token_;
    std::atomic<bool> stopped_ = false;
    std::mutex mutex_;
    std::deque<MapCollector> all_;
};

}  // namespace stepcast
