// The data of a sweep's interactive map, collected during screening: for every two keys, pair of
// values and memory limit, the best point.
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
    double tokens = 0, price = 0;  // in a step; of all ranks, a second
    int ranks = 0;
    bool tight = false;      // within the margin of the device's memory
    std::uint64_t kind = 0;  // SweepSpace::kind_of(), where different splits are wanted
    friend bool operator==(const Candidate&, const Candidate&) = default;
};

inline constexpr std::uint64_t most_mapped = 6'000'000;  // legal points
inline constexpr std::size_t most_map_keys = 16;
using AlongKeys = std::array<std::uint32_t, most_map_keys>;  // the position along each key

// Memory limits rise in steps of 9 %.
int memory_limit_of(Bytes peak);
Bytes memory_limit(int number);

struct MapCandidate {
    double score = 0;
    Candidate candidate;
    AlongKeys at{};
};

// One thread has its own.
class MapCollector {
public:
    MapCollector(const SweepSpace& space, bool of_token);
    void note(const Candidate& candidate, const ParallelPlan& split);
    void add(const MapCollector& other);
    [[nodiscard]] AlongKeys positions(PointId id, const ParallelPlan& split) const;
    [[nodiscard]] const std::vector<VariedKey>& keys() const { return keys_; }
    // Each point that is the best of some place. Joins limits, `limits_joined` into one, until
    // there are at most `most` points.
    [[nodiscard]] std::map<PointId, MapCandidate> best(std::size_t most, int& limits_joined) const;

    std::uint64_t legal = 0;  // legal points met, including those that do not fit

private:
    // Number: a pair of keys, the positions along both, and a limit; above 0. Open addressing,
    // because most of a walk is spent here.
    struct Place {
        std::uint64_t number = 0;
        double score = 0;
        PointId id;
        std::uint32_t point = 0;  // in points_
    };
    Place& place(std::uint64_t number);
    // The place of this number if this point beats the one stored there, else nullptr.
    Place* won(std::uint64_t number, double score, PointId id);

    const SweepSpace* space_;
    bool of_token_;
    std::vector<VariedKey> keys_;
    std::vector<Place> places_;
    std::size_t used_ = 0;
    std::vector<MapCandidate> points_;
};

// The collectors of all threads of a process. stop() ends collecting when a space has too many
// points.
class MapCollectors {
public:
    MapCollectors(const SweepSpace& space, bool of_token) : space_(space), of_token_(of_token) {}
    MapCollector& add() {
        const std::lock_guard lock(mutex_);
        return all_.emplace_back(space_, of_token_);
    }
    void stop() { stopped_ = true; }
    [[nodiscard]] bool stopped() const { return stopped_; }
    // Call when no thread collects any more.
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
