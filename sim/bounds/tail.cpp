// With n micro-batches, C the collectives of one chunk's gradients, and G the gather of its
// parameters:
//   zero 0, 1  C runs during the last backwards, once the first bucket is full; chunks end pp slots
//              apart. In schedules that drain stage by stage, each stage's slower last backward
//              delays the stages before it
//   zero 2     n C run during all backwards
//   zero 3     collectives run inside the slots; the step waits for the first gather and the last
//              collective
// Pipelines under zero 2 and 3 end as under zero 1 (StepBounds::estimate_ends).
// With overlap_params (zero 1, 2) G runs during the first forwards: a layer waits for its own
// parameters and for all before them.
#include "sim/bounds/tail.h"

#include <algorithm>

namespace stepcast {
namespace {

// Times of the passes of a stage, and of its mean layer.
struct TailWork {
    // of a stage, one micro-batch; backward: the pass that fills buckets
    double forward = 0, backward = 0;
    double whole = 0;  // the whole backward
    double layer_forward = 0, layer_backward = 0;
};

TailWork work_of(const TailInputs& in) {
    const UnitCounts& u = in.group.most;
    const bool split = traits(in.plan.parallelism.schedule).splits_backward;
    TailWork work;
    for (const UnitKind kind : all_kinds) {
        const bool layer = kind <= UnitKind::experts;
        const auto time = [&](Pass pass) { return in.times[feature::unit(kind, pass)]; };
        const int count = u[at(kind)];
        const double forward = time(Pass::forward),
                     again = layer ? in.times[feature::again(kind)] : 0;
        const double both = (split ? time(Pass::input_backward) + time(Pass::weight_backward)
                                   : time(Pass::backward)) +
                            again;
        const double filling = split ? time(Pass::weight_backward) : both;
        work.forward += count * forward;
        work.whole += count * both;
        work.backward += count * filling;
        if (!layer) continue;
        work.layer_forward += count * forward;
        work.layer_backward += count * filling;
    }
    const double layers = std::max(1, all_layers(u));
    work.layer_forward /= layers;
    work.layer_backward /= layers;
    return work;
}

double beyond(double a, double b) { return std::max(0.0, a - b); }

// The last backward of a chunk: its slot, the collectives of its gradients, for how long they may
// run during the slot (once its first bucket is full), and the time that the slot loses to them.
struct LastBackward {
    double slot, gradients, window, lost;
};
LastBackward last_backward(const TailInputs& in, const TailWork& work) {
    const double slot = work.backward / in.chunks, gradients = in.data.gradients / in.chunks;
    const double window = beyond(slot, in.data.first_layers * work.layer_backward);
    return {slot, gradients, window, lost_to_overlap(window, gradients, in.slowdown)};
}

double lost_by_later_stages(const TailInputs& in, double lost) {
    return traits(in.plan.parallelism.schedule).splits_backward
               ? 0
               : lost * (in.plan.parallelism.pp - 1);
}

// zero 0 and 1: buckets are reduced during the last backwards of the chunks.
void add_last_backwards(const TailInputs& in, const TailWork& work, Tail& tail) {
    const LastBackward last = last_backward(in, work);
    const double chunks = in.chunks, running = last.window + last.lost;
    const double between = traits(in.plan.parallelism.schedule).chunks == StageChunks::rounds
                               ? in.plan.parallelism.pp * work.whole / chunks
                               : work.backward;
    tail.delay += last.lost * chunks + lost_by_later_stages(in, last.lost);
    tail.exposed = std::max({in.data.last_bucket, last.gradients - running,
                             in.data.gradients - running - (chunks - 1) * between});
}

// zero 2: there is no pipeline. Collectives run from the first backward on that fills a bucket,
// during all that a stage does, but in the last backward only once its first bucket is full.
void add_all_backwards(const TailInputs& in, const TailWork& work, double end, Tail& tail) {
    const double n = in.micro_batches, gradients = in.data.gradients;
    const LastBackward last = last_backward(in, work);
    const double first_bucket = work.forward + in.data.first_layers * work.layer_backward;
    tail.delay +=
        lost_to_overlap((n - 1) * (work.whole + work.forward), (n - 1) * gradients, in.slowdown) +
        last.lost;
    tail.exposed = std::max({in.data.last_bucket, gradients - last.window - last.lost,
                             first_bucket + n * gradients - end - tail.delay});
}

void add_first_forwards(const TailInputs& in, const TailWork& work, Tail& tail) {
    const double chunks = in.chunks, slot = work.forward / chunks,
                 of_chunk = in.data.parameters / chunks;
    const double fill = work.forward / chunks * in.plan.parallelism.pp;
    tail.delay += lost_to_overlap(fill, in.data.parameters, in.slowdown);
    const double running = slot + lost_to_overlap(slot, of_chunk, in.slowdown);
    const double first = of_chunk + work.layer_forward - running;
    const double last = in.data.parameters + work.layer_forward - running -
                        (chunks - 1) * in.plan.parallelism.pp * slot;
    tail.delay += std::max({0.0, first, last});
}

// A pass that overlaps collectives; `slowdown` is scaled with the kernels' share of the pass.
double overlapped(double work, double collective, double slowdown) {
    return std::max(work + lost_to_overlap(work, collective, slowdown), collective);
}

// The share of a stage's forwards and backwards that gather their parameters: in a pipeline those
// that follow a forward of their chunk. The first forward of each stage does, and with one
// micro-batch after the other in flight each backward of the last stage.
struct Gathering {
    double forwards = 1, backwards = 1;
};
Gathering gathering_of(const Parallelism& p) {
    if (shards_each_pass(p)) return {};
    const ScheduleTraits& schedule = traits(p.schedule);
    const double n = std::max(1, micro_batches(p)), stages = p.pp;
    if (schedule.forwards_first) return {1, 1 / n};
    if (schedule.chunks == StageChunks::rounds && p.vp > 1)
        return {(stages - 1) / stages, 1 / stages};
    return {stages / (n + stages - 1), n / (n + stages - 1)};
}

double mixed(double share, double with, double without) {
    return share * with + (1 - share) * without;
}

// What lies between two slots of a stage, for its most frequent kind of layer. `last_plan` ends the
// slot, `alone` is the same with what is recomputed, and `slowed` is the slowdown scaled with their
// kernels' share.
struct Boundary {
    double gather, scatter, alone, last_plan, slowed;
};
void set_boundary(FeatureTimes& times, const Boundary& b, bool overlap) {
    const double first = overlapped(b.alone, b.gather, b.slowed);
    const double middle = overlapped(b.alone, b.scatter + b.gather, b.slowed);
    const double last = b.alone + lost_to_overlap(b.alone, b.scatter, b.slowed);
    if (overlap) {
        times[feature::filling_single] = b.alone - middle;
        times[feature::filling] = first + last - 2 * middle;
        times[feature::filled_single] = b.gather + b.scatter;
        times[feature::filled] = b.gather + b.scatter + std::max(0.0, b.scatter - last);
        return;
    }
    // The gather for the next slot begins with the last plan of this slot, after the recomputation.
    const double slowed_plan = b.last_plan + lost_to_overlap(b.last_plan, b.gather, b.slowed);
    times[feature::filling] = times[feature::filling_single] =
        b.alone - b.last_plan + slowed_plan - middle;
    times[feature::filled] = times[feature::filled_single] = std::max(0.0, b.gather - slowed_plan);
}

}  // namespace

double slowdown_of(const FeatureTimes& times, const Slowing& slowing, const UnitCounts& units) {
    const auto& [computing, slowdown] = slowing;
    double all = 0, kernels = 0;
    for (const UnitKind kind : all_kinds)
        for (const Pass pass : {Pass::forward, Pass::backward}) {
            all += units[at(kind)] * times[feature::unit(kind, pass)];
            kernels += units[at(kind)] * computing[feature::unit(kind, pass)];
        }
    return all > 0 ? slowdown * kernels / all : slowdown;
}

// zero 3: a unit's parameters are gathered during the unit before it. In a backward the gradients
// of the unit before go first. The gather for the next slot waits for the gradients of the last
// unit, and overlaps nothing. Pipelines gather for some passes alone and scatter once a step.
FeatureTimes with_sharding(FeatureTimes times, const Slowing& slowing, const ParallelPlan& plan,
                           const DataTimes& data, const UnitCounts& units) {
    const FeatureTimes& computing = slowing.computing;
    const double slowdown = slowing.slowdown;
    const Parallelism& p = plan.parallelism;
    const bool overlaps = overlaps_gradients(plan.exchanges, p), each = shards_each_pass(p);
    if (p.zero != 3) return times;
    const Gathering gathering = gathering_of(p);
    for (const UnitKind kind : all_kinds) {
        const double gather = data.gathered[at(kind)],
                     scatter = each && overlaps ? data.exchanged[at(kind)] : 0;
        const double again = kind <= UnitKind::experts ? times[feature::again(kind)] : 0;
        double& forward = times[feature::unit(kind, Pass::forward)];
        double& backward = times[feature::unit(kind, Pass::backward)];
        double& inputs = times[feature::unit(kind, Pass::input_backward)];
        // The slowdown, scaled with the kernels' share of a pass and of what it recomputes.
        const auto slowed = [&](Pass pass) {
            const std::size_t f = feature::unit(kind, pass);
            const bool repeats =
                again > 0 && (pass == Pass::backward || pass == Pass::input_backward);
            const double kernels = computing[f] + (repeats ? computing[feature::again(kind)] : 0);
            const double all = times[f] + (repeats ? again : 0);
            return (all > 0 ? kernels / all : 0) * slowdown;
        };
        const double of_forward = slowed(Pass::forward), of_backward = slowed(Pass::backward),
                     of_inputs = slowed(Pass::input_backward);
        const double slowed_forward = forward + lost_to_overlap(forward, gather, of_forward);
        const Boundary between{gather, scatter, backward + again, backward, of_backward};
        forward = mixed(gathering.forwards, overlapped(forward, gather, of_forward), forward);
        backward =
            mixed(gathering.backwards,
                  overlapped(backward + again, gather + scatter, of_backward) - again, backward);
        inputs = mixed(gathering.backwards, overlapped(inputs + again, gather, of_inputs) - again,
                       inputs);
        if (!each || kind != (units[1] > units[0] ? UnitKind::experts : UnitKind::dense)) continue;
        times[feature::opened] = forward - slowed_forward;
        set_boundary(times, between, overlaps);
    }
    return times;
}

Tail tail_of(const TailInputs& in, double end) {
    const Parallelism& p = in.plan.parallelism;
    const TailWork work = work_of(in);
    const double n = in.micro_batches;
    Tail tail;
    if (!overlaps_gradients(in.plan.exchanges, p)) {
        tail.exposed = in.data.gradients * (p.zero >= 2 ? n : 1);
    } else if (p.zero < 2) {
        add_last_backwards(in, work, tail);
    } else if (p.zero == 2) {
        add_all_backwards(in, work, end, tail);
    } else {
        tail.exposed = in.data.last_bucket;
    }
    if ((p.zero == 1 || p.zero == 2) && in.plan.exchanges.parameters)
        add_first_forwards(in, work, tail);
    if (p.zero == 3)
        tail.delay += in.data.gathered[at(
            in.group.most[at(UnitKind::embedding)] > 0 ? UnitKind::embedding : UnitKind::dense)];
    return tail;
}

}  // namespace stepcast
