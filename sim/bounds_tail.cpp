// Micro-batch m of n, f and b the slots of one piece of the stage, C its gradients' exchange, G its parameters' gather,
// s the slowdown of computation beside communication:
//   zero 0, 1  C beside the last backwards, from when the first bucket is full; pieces end p slots apart; with the
//              schedules that drain stage by stage each stage's slower last backward delays those before it
//   zero 2     n C beside all backwards
//   zero 3     inside the slots; the first gather and the last exchange are awaited
// and with overlap_params (zero 1, 2) G beside the first forwards: a layer waits for its own and all before it.
#include "sim/bounds_tail.h"

#include <algorithm>

namespace stepcast {
namespace {

bool splits(Schedule s) { return s == Schedule::zb_h1 || s == Schedule::zb_v || s == Schedule::dualpipe; }

// The passes of a stage's layers and ends, and of a piece's.
struct Work {
    double forward = 0, backward = 0;  // of a stage, one micro-batch; backward: the pass whose end fills buckets
    double whole = 0;                  // backward in all
    double layer_forward = 0, layer_backward = 0;
};

Work work_of(const TailInputs& in) {
    const StageUnits& u = in.group.most;
    const bool split = splits(in.p.schedule);
    Work work;
    const auto add = [&](UnitKind kind, int count, bool layer) {
        const double forward = in.times[feature::unit(kind, Pass::forward)];
        const double again = layer ? in.times[feature::again(kind)] : 0;
        const double both = split ? in.times[feature::unit(kind, Pass::input_backward)] +
                                        in.times[feature::unit(kind, Pass::weight_backward)] + again
                                  : in.times[feature::unit(kind, Pass::backward)] + again;
        const double filling = split ? in.times[feature::unit(kind, Pass::weight_backward)] : both;
        work.forward += count * forward;
        work.whole += count * both;
        work.backward += count * filling;
        if (!layer) return;
        work.layer_forward += count * forward;
        work.layer_backward += count * filling;
    };
    add(UnitKind::dense, u.layers[0], true);
    add(UnitKind::experts, u.layers[1], true);
    add(UnitKind::embedding, u.embeddings, false);
    add(UnitKind::head, u.heads, false);
    const double layers = std::max(1, u.all_layers());
    work.layer_forward /= layers;
    work.layer_backward /= layers;
    return work;
}

double beyond(double a, double b) { return std::max(0.0, a - b); }

// zero 0 and 1, buckets beside the last backwards of the pieces.
void add_last_backwards(const TailInputs& in, const Work& work, Tail& tail) {
    const double pieces = in.pieces, slot = work.backward / pieces, of_piece = in.data.gradients / pieces;
    const double window = beyond(slot, in.data.first_layers * work.layer_backward);
    const double lost = lost_beside(window, of_piece, in.slowdown);
    const double between = in.p.schedule == Schedule::one_f_one_b ? in.p.pp * work.whole / pieces : work.backward;
    tail.delay += lost * pieces;
    if (!splits(in.p.schedule)) tail.delay += lost * (in.p.pp - 1);
    const double running = window + lost;
    tail.exposed =
        std::max({in.data.last_bucket, of_piece - running, in.data.gradients - running - (pieces - 1) * between});
}

void add_first_forwards(const TailInputs& in, const Work& work, Tail& tail) {
    const double pieces = in.pieces, slot = work.forward / pieces, of_piece = in.data.parameters / pieces;
    const double fill = work.forward / pieces * in.p.pp;
    tail.delay += lost_beside(fill, in.data.parameters, in.slowdown);
    const double running = slot + lost_beside(slot, of_piece, in.slowdown);
    const double first = of_piece + work.layer_forward - running;
    const double last = in.data.parameters + work.layer_forward - running - (pieces - 1) * in.p.pp * slot;
    tail.delay += std::max({0.0, first, last});
}

}  // namespace

Features with_sharding(Features times, const Parallelism& p, const DataTimes& data, double slowdown, bool split) {
    if (p.zero < 2) return times;
    for (std::size_t k = 0; k < unit_kinds; ++k) {
        const auto kind = static_cast<UnitKind>(k);
        const double gather = p.zero == 3 ? data.gathered[k] : 0, scatter = p.overlap ? data.exchanged[k] : 0;
        const auto beside = [&](Pass pass, double exchange, double again) {
            double& time = times[feature::unit(kind, pass)];
            const double compute = time + again;
            if (compute == 0) return;
            time = compute + lost_beside(compute, exchange, slowdown);
            if (p.zero == 3) time = std::max(time, exchange);
            time -= again;
        };
        const bool layer = kind <= UnitKind::experts;
        const double again = layer ? times[feature::again(kind)] : 0;
        beside(Pass::forward, gather, 0);
        beside(Pass::backward, gather + scatter, again);
        if (!split) continue;
        beside(Pass::input_backward, gather, again);
        beside(Pass::weight_backward, scatter, 0);
    }
    return times;
}

Tail tail_of(const TailInputs& in) {
    const Parallelism& p = in.p;
    const Work work = work_of(in);
    const int n = in.micro_batches;
    Tail tail;
    if (!p.overlap) {
        tail.exposed = in.data.gradients * (p.zero >= 2 ? n : 1);
    } else if (p.zero < 2) {
        add_last_backwards(in, work, tail);
    } else if (p.zero == 2) {
        const double window = n * work.backward + std::max(0, n - p.pp) * (work.forward + work.whole - work.backward);
        tail.exposed = std::max(in.data.last_bucket, n * in.data.gradients - window);
    } else {
        tail.exposed = in.data.last_bucket;
    }
    if ((p.zero == 1 || p.zero == 2) && p.overlap_params) add_first_forwards(in, work, tail);
    if (p.zero == 3)
        tail.delay += in.data.gathered[static_cast<std::size_t>(in.group.most.embeddings > 0 ? UnitKind::embedding
                                                                                             : UnitKind::dense)];
    return tail;
}

}  // namespace stepcast
