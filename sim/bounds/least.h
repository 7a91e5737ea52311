// What contention adds to the lower bound: the time that a rank must lose because collectives run
// during kernels of its path.
#pragma once

#include "sim/bounds/data.h"
#include "sim/engine/simulate.h"

namespace stepcast {

// Of a plan that runs alone, in seconds: its least time, and the least of its kernel time that no
// collective overlaps. `waits`: at some moment the host waits for all that was issued before, and
// all that comes after waits for the host; `after`: the part of `all` behind the last such moment.
struct LeastTimes {
    double all = 0, alone = 0;
    bool waits = false;
    double after = 0;
};
LeastTimes least_times(const TaskGraph& plan, const Costs& costs, double slowdown);

// Properties of a split and its slots; times in seconds.
struct LeastInputs {
    const FeatureTimes &lower, &alone;  // as in BoundShape; both must outlive LeastCollectives
    Schedule schedule;
    bool recomputes_some = false;  // some layers run again, but not all
    UnitCounts model{};            // the units of one copy of the model
    int chunk_layers = 1;          // how many layers the shortest chunk has
    // the longest send, with the time from its end to the slot that waited for it
    double send = 0;
    double slowdown = 0;
};

class LeastCollectives {
public:
    explicit LeastCollectives(const LeastInputs& in);

    // `lower` without stalls and with the delays by collectives: under zero 3 inside and between
    // slots, otherwise by gradients that overlap slots. `data` may be of any stage, because units
    // of one kind are alike.
    [[nodiscard]] FeatureTimes features(const ParallelPlan& plan, const DataTimes& data) const;
    // By how much a path that begins with the first slot gets longer, because that slot waits for
    // its first parameters.
    [[nodiscard]] double first(const DataTimes& data) const;
    // By how much such a path gets longer, because its slots wait for
    // parameters and are slowed by their gathers. Under zero 1 and 2 every stage gathers for at
    // least `parameters` seconds without a gap.
    [[nodiscard]] double start(const Parallelism& p, const DataTimes& data,
                               double parameters) const;

private:
    // Times of one pass of a layer, over both kinds of layers: the longest (`all`), the shortest
    // (`fewest`), the least without own collectives (`alone`), and the most that own collectives
    // overlap (`overlapped`).
    struct Layers {
        double all = 0, fewest = 0, alone = 0, overlapped = 0;
    };
    [[nodiscard]] Layers layers(Pass pass, bool repeats) const;
    [[nodiscard]] double of_layers(const std::array<double, unit_kinds>& times) const;
    [[nodiscard]] double longer(const Layers& layers, double collectives, bool awaited) const;
    [[nodiscard]] double overlapping_first(double collectives) const;
    void add(FeatureTimes& f, Pass pass, double time) const;
    void collective(FeatureTimes& f, const Parallelism& p, const DataTimes& data) const;
    void shard(FeatureTimes& f, const ParallelPlan& plan, const DataTimes& data) const;

    LeastInputs in_;
    // share of an overlapping collective's time that kernels lose
    double lost_;
    bool split_;                           // whether backwards are split
    Layers forward_, backward_, weights_;  // weights_: the pass that makes weight gradients
    double shortest_ = 1e300, overlapped_ = 0, overlapped_share_ = 0, ends_ = 0;
};

}  // namespace stepcast
