// What a task was written for, as far as its builder knows it.
#pragma once

#include "model/transformer/known_schedules.h"

namespace stepcast {

// Numbers count from 0; -1: none.
struct TaskLabel {
    int stage = -1;        // of the pipeline
    int slot = -1;         // in the order of its stage: one micro-batch in one chunk
    int turn = 0;          // of two slots that alternate: which of the turns they take
    int micro_batch = -1;  // of the slot
    int layer = -1;        // of the model
    Pass pass = Pass::forward;
    friend bool operator==(const TaskLabel&, const TaskLabel&) = default;
};

}  // namespace stepcast
