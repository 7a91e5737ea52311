#include "model/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/errors.h"

namespace stepcast {

int pieces_per_stage(const Parallelism& p) {
    return traits(p.schedule).pieces == StagePieces::there_and_back && p.vp == 1 ? 2 : p.vp;
}

void check_schedule(Schedule schedule, int stages, int pieces, int micro_batches) {
    const ScheduleTraits& s = traits(schedule);
    if (s.pieces == StagePieces::one && pieces != 1)
        throw ConfigError(
            fmt::format("parallelism.schedule: {} has one piece a stage, but parallelism.vp is {}; expected 1f1b or "
                        "parallelism.vp = 1",
                        s.name, pieces));
    if (s.pieces == StagePieces::there_and_back && pieces != 2)
        throw ConfigError(
            fmt::format("parallelism.schedule: {} has two pieces a stage, but parallelism.vp is {}; expected "
                        "parallelism.vp = 1 or 2",
                        s.name, pieces));
    if (stages % s.copies != 0)
        throw ConfigError(fmt::format(
            "parallelism.schedule: {} pairs the stages, but parallelism.pp is {}; expected an even number", s.name, stages));
    if (micro_batches < 1)
        throw ConfigError(fmt::format(
            "parallelism.global_batch: makes {} micro-batches; expected at least one for each replica", micro_batches));
    if (s.pieces == StagePieces::rounds && pieces > 1 && micro_batches % stages != 0)
        throw ConfigError(
            fmt::format("parallelism.global_batch: makes {} micro-batches, but interleaved {} (parallelism.vp = {}) "
                        "runs them in rounds of parallelism.pp = {}; expected a multiple",
                        micro_batches, s.name, pieces, stages));
}

std::vector<Order> schedule_orders(Schedule schedule, int stages, int pieces, int micro_batches) {
    check_schedule(schedule, stages, pieces, micro_batches);
    return traits(schedule).orders(stages, pieces, micro_batches);
}

int piece_of(Schedule, int stages, int global_piece) { return global_piece / stages; }

// Except when interleaved, the second piece of a stage lies on the way back from the last rank to the first.
int stage_of(Schedule schedule, int stages, int global_piece) {
    const int along = global_piece % stages;
    const bool back =
        traits(schedule).pieces == StagePieces::there_and_back && piece_of(schedule, stages, global_piece) == 1;
    return back ? stages - 1 - along : along;
}

int model_pieces(Schedule schedule, int stages, int pieces) {
    return stages * pieces / traits(schedule).copies;
}

int in_flight(const Order& order) {
    int now = 0, peak = 0;
    for (const Slot& slot : order) {
        if (slot.pass == Pass::forward) peak = std::max(peak, ++now);
        if (slot.pass == Pass::backward || slot.pass == Pass::weight_backward) --now;
    }
    return peak;
}

}  // namespace stepcast
