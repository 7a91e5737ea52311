// Who computes which slots in a layer with experts, on one rank.
#pragma once

#include <vector>

#include "model/transformer/layer.h"

namespace stepcast {

struct ExpertRows {
    long slots = 0;        // that this rank sends: tokens x top_k, or what their experts' capacity makes of them
    bool balanced = true;  // no drawn or recorded routing counts
    Group tensor;          // ranks whose slots an expert sees
    std::vector<std::vector<long>> rows;  // of each local expert, by expert-parallel rank; one entry when balanced
    [[nodiscard]] long most() const;      // of one rank
};
ExpertRows expert_rows(const LayerContext& context);

// dispatch_once: tokens that a rank receives when each comes once, over the slots that they stand for; of one node, that
// share of the slots' bytes which comes from others.
double once_over_slots(const Moe& moe, long places);

}  // namespace stepcast
