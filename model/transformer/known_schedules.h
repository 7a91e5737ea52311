// The pipeline schedules and their properties. To add one, add a file with its order beside this
// one, an enumerator here and its row.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/base/names.h"
#include "model/base/numbers.h"

namespace stepcast {

// backward computes the gradients of inputs and weights together. Zero-bubble schedules split it
// into input_backward, which the previous stage waits for, and weight_backward, which only the
// optimizer waits for.
enum class Pass : std::uint8_t { forward, backward, input_backward, weight_backward };
constexpr bool makes_weight_gradients(Pass pass) {
    return pass == Pass::backward || pass == Pass::weight_backward;
}

// What a stage does with one micro-batch in one of its chunks. `chunk` counts the chunks of the
// stage in the order in which a micro-batch passes them (dualpipe: chunk = direction).
struct Slot {
    int micro_batch = 0;
    int chunk = 0;
    Pass pass = Pass::forward;
    bool paired = false;  // alternates with the next slot
    friend bool operator==(const Slot&, const Slot&) = default;
};
using Order = std::vector<Slot>;

// The order of one stage. The arguments must pass check_schedule().
using StageOrder = Order(int stage, int stages, int chunks, int micro_batches);
namespace pipeline_orders {
StageOrder gpipe, one_f_one_b, zb_h1, zb_v, dualpipe;
}

// one_f_one_b with vp > 1 is interleaved 1F1B (arXiv 2104.04473). zb_h1: weight gradients fill the
// drain (arXiv 2401.10241). zb_v: two chunks per stage in a V (arXiv 2405.15362). dualpipe:
// micro-batches enter at both ends and each rank holds two chunks (DeepSeek-V3, arXiv 2412.19437).
enum class Schedule : std::uint8_t { gpipe, one_f_one_b, zb_h1, zb_v, dualpipe };

// How many chunks of the model a stage holds. rounds: parallelism.vp, spread in rounds over the
// stages. there_and_back: two, the second on the way back from the last stage to the first.
enum class StageChunks : std::uint8_t { one, rounds, there_and_back };

struct ScheduleTraits {
    Schedule schedule;
    std::string_view name;  // in files
    StageOrder* order;
    StageChunks chunks = StageChunks::one;
    bool splits_backward = false;  // into gradients of inputs and of weights
    // all forwards before the first backward, so nothing repeats from round to round
    bool forwards_first = false;
    // copies of the model; with two, one is entered from each end, and stages are paired
    int copies = 1;
    // fill and drain are shorter than this less one, in rounds of copies x stages micro-batches
    int steady_rounds = 4;
    // True if one stage holds both ends of the model.
    [[nodiscard]] constexpr bool ends_meet() const {
        return chunks == StageChunks::there_and_back && copies == 1;
    }
};

inline constexpr ScheduleTraits known_schedules[] = {
    {Schedule::gpipe, "gpipe", pipeline_orders::gpipe, StageChunks::one, false, true},
    {Schedule::one_f_one_b, "1f1b", pipeline_orders::one_f_one_b, StageChunks::rounds},
    {Schedule::zb_h1, "zb-h1", pipeline_orders::zb_h1, StageChunks::one, true},
    {Schedule::zb_v, "zb-v", pipeline_orders::zb_v, StageChunks::there_and_back, true, false, 1, 6},
    {Schedule::dualpipe, "dualpipe", pipeline_orders::dualpipe, StageChunks::there_and_back, true,
     false, 2},
};

constexpr const ScheduleTraits& traits(Schedule schedule) {
    return known_schedules[as_index(schedule)];
}
constexpr auto names_of(Schedule) {
    return names_of_rows<Schedule>("a schedule", known_schedules, &ScheduleTraits::schedule);
}

}  // namespace stepcast
