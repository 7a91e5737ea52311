// The slots that each rank sends and computes in a layer with experts.
#pragma once

#include <vector>

#include "model/transformer/layer.h"

namespace stepcast {

struct ExpertRows {
    long slots = 0;        // that this rank sends: tokens x top_k, changed by the experts' capacity
    bool balanced = true;  // no drawn or recorded routing applies
    Group tensor;          // the tensor-parallel ranks whose slots an expert receives
    // slots of each local expert, by expert-parallel rank; one entry if balanced
    std::vector<std::vector<long>> rows;
    [[nodiscard]] long most() const;  // the largest total of one rank
};
ExpertRows expert_rows(const LayerContext& context);

// experts.dispatch = once: bytes that `places` receive when each token is sent once per place,
// relative to the bytes of its slots.
double once_over_slots(const Moe& moe, long places);

}  // namespace stepcast
