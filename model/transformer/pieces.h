// Where the layers of the model live: pieces of consecutive layers, on stages.
#pragma once

#include <vector>

#include "model/parallelism.h"
#include "model/workload.h"

namespace stepcast {

// Layers [first, last) of a model piece, and whether it begins with the embedding or ends with the logits.
struct Piece {
    int stage = 0;
    int index = 0;  // among the pieces of its stage: what a Slot calls `piece`
    int first = 0, last = 0;
    bool embedding = false, head = false;
    friend bool operator==(const Piece&, const Piece&) = default;
};

// The pieces that a micro-batch goes through, in forward order. `direction` is 0 but for the second direction of
// dualpipe. Layers are spread by stage_layers, or as evenly as possible.
std::vector<Piece> pieces_of(const Workload& workload, const Parallelism& parallelism, int direction = 0);

// dualpipe: micro-batches of stage piece 1 go the other way.
int directions(const Parallelism& parallelism);

}  // namespace stepcast
