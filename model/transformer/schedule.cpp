#include "model/transformer/schedule.h"

#include <utility>

#include "model/base/refuse.h"

namespace stepcast {

int chunks_per_stage(const Parallelism& p) {
    return traits(p.schedule).chunks == StageChunks::there_and_back && p.vp == 1 ? 2 : p.vp;
}

ScheduleFault schedule_fault(Schedule schedule, int stages, int chunks, int micro_batches) {
    const ScheduleTraits& s = traits(schedule);
    if (s.chunks != StageChunks::rounds && chunks != (s.chunks == StageChunks::one ? 1 : 2))
        return ScheduleFault::chunks;
    if (stages % s.copies != 0) return ScheduleFault::odd_stages;
    if (micro_batches < 1) return ScheduleFault::micro_batches;
    if (s.chunks == StageChunks::rounds && chunks > 1 && micro_batches % stages != 0)
        return ScheduleFault::rounds;
    return ScheduleFault::none;
}

ScheduleFault schedule_fault(const Parallelism& p) {
    return schedule_fault(p.schedule, p.pp, chunks_per_stage(p), micro_batches(p));
}

void check_schedule(Schedule schedule, int stages, int chunks, int micro_batches) {
    const ScheduleTraits& s = traits(schedule);
    const bool one = s.chunks == StageChunks::one;
    switch (schedule_fault(schedule, stages, chunks, micro_batches)) {
        case ScheduleFault::none: return;
        case ScheduleFault::chunks:
            refuse("parallelism.schedule: {} has {} a stage, but parallelism.vp is {}; expected {}",
                   s.name, one ? "one chunk" : "two chunks", chunks,
                   one ? "1f1b or parallelism.vp = 1" : "parallelism.vp = 1 or 2");
        case ScheduleFault::odd_stages:
            refuse(
                "parallelism.schedule: {} pairs the stages, but parallelism.pp is {}; expected an "
                "even number",
                s.name, stages);
        case ScheduleFault::micro_batches:
            refuse(
                "parallelism.global_batch: makes {} micro-batches; expected at least one for each "
                "replica",
                micro_batches);
        case ScheduleFault::rounds:
            refuse(
                "parallelism.global_batch: makes {} micro-batches, but interleaved {} "
                "(parallelism.vp = {}) runs them in rounds of parallelism.pp = {}; expected a "
                "multiple",
                micro_batches, s.name, chunks, stages);
    }
}

void check_schedule(const Parallelism& p) {
    check_schedule(p.schedule, p.pp, chunks_per_stage(p), micro_batches(p));
}

std::vector<Order> schedule_orders(Schedule schedule, int stages, int chunks, int micro_batches) {
    check_schedule(schedule, stages, chunks, micro_batches);
    std::vector<Order> orders;
    for (int stage = 0; stage < stages; ++stage)
        orders.push_back(traits(schedule).order(stage, stages, chunks, micro_batches));
    return orders;
}

std::vector<Order> schedule_orders(const Parallelism& p) {
    std::vector<Order> orders =
        schedule_orders(p.schedule, p.pp, chunks_per_stage(p), micro_batches(p));
    if (!p.overlap_experts) return orders;
    const bool two_copies = traits(p.schedule).copies > 1;
    for (Order& order : orders)
        for (std::size_t i = 0; i + 1 < order.size(); ++i) {
            Slot &one = order[i], &next = order[i + 1];
            if (!two_copies && one.pass == Pass::backward && next.pass == Pass::forward)
                std::swap(one, next);
            else if (!two_copies || one.pass != Pass::forward || next.pass != Pass::backward ||
                     one.chunk == next.chunk)
                continue;
            one.paired = true;
            ++i;
        }
    return orders;
}

// Without interleaving, a second chunk of a stage lies on the way back from the last rank to the
// first.
int stage_of(Schedule schedule, int stages, int global_chunk) {
    const int along = global_chunk % stages;
    const bool back =
        traits(schedule).chunks == StageChunks::there_and_back && global_chunk / stages == 1;
    return back ? stages - 1 - along : along;
}

int model_chunks(Schedule schedule, int stages, int chunks) {
    return stages * chunks / traits(schedule).copies;
}
int model_chunks(const Parallelism& p) {
    return model_chunks(p.schedule, p.pp, chunks_per_stage(p));
}

bool ends_apart(const Parallelism& p) { return p.pp > 1 && !traits(p.schedule).ends_meet(); }

}  // namespace stepcast
