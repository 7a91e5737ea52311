#include "model/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "model/errors.h"
#include "model/pipeline/orders.h"

namespace stepcast {

int pieces_per_stage(const Parallelism& p) {
    const bool fixed = p.schedule == Schedule::zb_v || p.schedule == Schedule::dualpipe;
    return fixed && p.vp == 1 ? 2 : p.vp;
}

void check_schedule(Schedule schedule, int stages, int pieces, int micro_batches) {
    const auto name = to_string(schedule);
    const bool one = schedule == Schedule::gpipe || schedule == Schedule::zb_h1;
    const bool two = schedule == Schedule::zb_v || schedule == Schedule::dualpipe;
    if (one && pieces != 1)
        throw ConfigError(
            fmt::format("parallelism.schedule: {} has one piece a stage, but parallelism.vp is {}; expected 1f1b or "
                        "parallelism.vp = 1",
                        name, pieces));
    if (two && pieces != 2)
        throw ConfigError(
            fmt::format("parallelism.schedule: {} has two pieces a stage, but parallelism.vp is {}; expected "
                        "parallelism.vp = 1 or 2",
                        name, pieces));
    if (schedule == Schedule::dualpipe && stages % 2 != 0)
        throw ConfigError(fmt::format(
            "parallelism.schedule: dualpipe pairs the stages, but parallelism.pp is {}; expected an even number",
            stages));
    if (micro_batches < 1)
        throw ConfigError(fmt::format(
            "parallelism.global_batch: makes {} micro-batches; expected at least one for each replica", micro_batches));
    if (schedule == Schedule::one_f_one_b && pieces > 1 && micro_batches % stages != 0)
        throw ConfigError(
            fmt::format("parallelism.global_batch: makes {} micro-batches, but interleaved 1f1b (parallelism.vp = {}) "
                        "runs them in rounds of parallelism.pp = {}; expected a multiple",
                        micro_batches, pieces, stages));
}

std::vector<Order> schedule_orders(Schedule schedule, int stages, int pieces, int micro_batches) {
    check_schedule(schedule, stages, pieces, micro_batches);
    switch (schedule) {
        case Schedule::gpipe: return pipeline::gpipe(stages, micro_batches);
        case Schedule::one_f_one_b:
            return pieces == 1 ? pipeline::one_f_one_b(stages, micro_batches)
                               : pipeline::interleaved(stages, pieces, micro_batches);
        case Schedule::zb_h1: return pipeline::zb_h1(stages, micro_batches);
        case Schedule::zb_v: return pipeline::zb_v(stages, micro_batches);
        case Schedule::dualpipe: return pipeline::dualpipe(stages, micro_batches);
    }
    throw std::logic_error("schedule_orders: no such schedule");
}

int piece_of(Schedule, int stages, int global_piece) { return global_piece / stages; }

// Except when interleaved, the second piece of a stage lies on the way back from the last rank to the first.
int stage_of(Schedule schedule, int stages, int global_piece) {
    const int along = global_piece % stages;
    const bool back =
        piece_of(schedule, stages, global_piece) == 1 && (schedule == Schedule::zb_v || schedule == Schedule::dualpipe);
    return back ? stages - 1 - along : along;
}

int model_pieces(Schedule schedule, int stages, int pieces) {
    return schedule == Schedule::dualpipe ? stages : stages * pieces;
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
