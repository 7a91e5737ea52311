// What contention adds to the lower bound: time that a rank must lose because kernels of its path run during collectives.
#pragma once

#include "sim/bounds/data.h"
#include "sim/engine/simulate.h"

namespace stepcast {

// A plan by itself, in seconds: what it takes at least, and the part of it in which kernels overlap no collective.
struct LeastTimes {
    double all = 0, alone = 0;
};
LeastTimes least_times(const TaskGraph& plan, const Costs& costs, double slowdown);

// What has to be known of a split and its slots; times in seconds.
struct LeastInputs {
    const Features &lower, &alone;  // as BoundShape has them; both must outlive what is made of them
    Schedule schedule;
    bool recomputes_some = false;  // some layers run again, but not all
    UnitCounts model{};            // the units of one copy of the model
    int chunk_layers = 1;          // how many layers the shortest chunk has
    double send = 0;               // what a send takes at most, with what comes between it and the slot that waited for it
    double slowdown = 0;
};

class LeastCollectives {
public:
    explicit LeastCollectives(const LeastInputs& in);

    // `lower` with what the collectives of each slot delay: zero 3 inside and between slots, else gradients that overlap them.
    // `data`: of any stage, as units of one kind are alike.
    [[nodiscard]] Features features(const Parallelism& p, const DataTimes& data) const;
    // What a path that begins with the first slot takes longer for the parameters that its slots await and that slow
    // them; with zero 1 and 2 `parameters` of any stage are gathered without a gap, at least.
    [[nodiscard]] double start(const Parallelism& p, const DataTimes& data, double parameters) const;

private:
    // What layers take of either kind in one pass: `all` the most, `fewest` and `alone` the least, `overlapped` own
    // collectives the most.
    struct Layers {
        double all = 0, fewest = 0, alone = 0, overlapped = 0;
    };
    [[nodiscard]] Layers layers(Pass pass, bool repeats) const;
    [[nodiscard]] double of_layers(const std::array<double, unit_kinds>& times) const;
    [[nodiscard]] double longer(const Layers& layers, double collectives, bool awaited) const;
    [[nodiscard]] double overlapping_first(double collectives) const;
    void add(Features& f, Pass pass, double time) const;
    void collective(Features& f, const Parallelism& p, const DataTimes& data) const;
    void shard(Features& f, const Parallelism& p, const DataTimes& data) const;

    LeastInputs in_;
    double lost_;                          // share of a collective that kernels that overlap it lose
    bool split_;                           // backwards
    Layers forward_, backward_, weights_;  // the last: what makes gradients of weights where backwards are split
    double shortest_ = 1e300, overlapped_ = 0, overlapped_share_ = 0, ends_ = 0;
};

}  // namespace stepcast
