// Under zero 3, which slots of a stage gather their weights: all but those that make weight
// gradients alone. With a pipeline a backward leaves its chunk's weights whole for the slot behind
// it (shards_each_pass() has the source).
#pragma once

#include <vector>

#include "model/transformer/known_schedules.h"

namespace stepcast {

class SlotGathers {
public:
    SlotGathers(int pp, std::size_t chunks) : kept_(pp > 1), whole_(chunks, false) {}

    // Whether the next slot of the stage's order gathers. Call it once for each slot, in order.
    bool next(const Slot& slot) {
        const auto chunk = as_index(slot.chunk);
        const bool gathers = slot.pass != Pass::weight_backward && !whole_[chunk];
        whole_[chunk] = kept_ && slot.pass != Pass::forward;
        return gathers;
    }

private:
    bool kept_;
    std::vector<bool> whole_;  // by chunk: its weights are, since its last backward
};

}  // namespace stepcast
