// Legal transformer experiments drawn from a seed: for laws that must hold for any of them. The
// same on every machine.
#pragma once

#include <array>

#include "model/base/errors.h"
#include "model/input/check_experiment.h"
#include "tests/random_graphs.h"
#include "tests/transformers.h"

namespace stepcast {

namespace random_experiments {

template <class T, std::size_t n>
T one_of(graphs::RandomSource& random, const std::array<T, n>& values) {
    return values[static_cast<std::size_t>(random.below(static_cast<int>(n)))];
}

inline void draw_split(graphs::RandomSource& random, Experiment& e, int ranks) {
    Parallelism& p = e.parallelism;
    const std::array sizes{1, 1, 2, 4};
    p.tp = one_of(random, sizes);
    p.cp = one_of(random, std::array{1, 1, 1, 2});
    p.pp = one_of(random, sizes);
    if (p.tp * p.cp * p.pp > ranks) p.tp = p.cp = p.pp = 1;
    p.dp = ranks / (p.tp * p.cp * p.pp);
    p.ep = e.workload.moe.experts > 0 ? one_of(random, sizes) : 1;
    p.schedule =
        one_of(random, std::array{Schedule::gpipe, Schedule::one_f_one_b, Schedule::one_f_one_b,
                                  Schedule::zb_h1, Schedule::zb_v, Schedule::dualpipe});
    if (p.pp == 1) p.schedule = Schedule::one_f_one_b;
    p.vp =
        p.schedule == Schedule::one_f_one_b && p.pp > 1 ? one_of(random, std::array{1, 1, 2}) : 1;
    p.zero = random.below(4);
    p.micro_batch = one_of(random, std::array{1, 2});
    p.global_batch = p.dp * p.micro_batch * one_of(random, std::array{1, 2, 4, 8});
    p.sequence_parallel = random.one_in(2);
    p.recompute =
        one_of(random, std::array{Recompute::none, Recompute::selective, Recompute::full});
    Exchanges& x = e.runtime.exchanges;
    x.gradients = random.one_in(3) ? GradientOverlap::never : GradientOverlap::always;
    x.parameters = !random.one_in(3);
    x.sends = !random.one_in(4);
    x.tensor = random.one_in(3) ? TensorOverlap::always : TensorOverlap::never;
    x.scatter_sends = random.one_in(2);
    e.runtime.gradients.bucket = BucketSize(Bytes(one_of(random, std::array{1e5, 1e6, 25e6})));
    if (p.cp > 1) e.runtime.attention = AttentionKind::flash;
}

inline void draw_machine(graphs::RandomSource& random, Cluster& c) {
    if (random.one_in(2))
        c.interference = {0.2 * random.fraction(), 0.5 * random.fraction(), random.one_in(2)};
    if (random.one_in(2)) c.host.call = Seconds(10e-6 * random.fraction());
    c.intra.bandwidth = BytesPerSecond(50e9 + 500e9 * random.fraction());
    c.inter.bandwidth = BytesPerSecond(5e9 + 50e9 * random.fraction());
    if (random.one_in(4)) c.fabric = Fabric::pcie;
}

}  // namespace random_experiments

// One to four nodes of four ranks; everything else drawn until check_experiment() accepts it.
inline Experiment random_experiment(std::uint64_t seed) {
    graphs::RandomSource random(seed);
    for (;;) {
        Experiment e = random.one_in(3) ? small_moe() : small_gpt();
        e.name = "drawn";
        e.workload.layers = random.one_in(2) ? 8 : 4;
        e.cluster.nodes = random_experiments::one_of(random, std::array{1, 2, 4});
        random_experiments::draw_split(random, e, rank_count(e.cluster));
        random_experiments::draw_machine(random, e.cluster);
        try {
            check_experiment(e);
            return e;
        } catch (const ConfigError&) {  // not a legal split
        }
    }
}

}  // namespace stepcast
