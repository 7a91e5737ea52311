// The tensors of one layer or one end of a transformer in the order in which its operators make
// them: what a forward makes and a backward frees. Written once for each kind of unit, played for
// every layer and micro-batch (lifetimes.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/graph/task_graph.h"
#include "sim/memory/memory_parts.h"

namespace stepcast {

using TensorList = std::vector<std::int64_t>;  // bytes of each

struct OperatorTape {
    std::string what;
    TensorList kept;     // from its forward to its backward
    TensorList again;    // by its forward, and anew for the backward of its block
    TensorList rerun;    // of what is kept, or in their place, what an alternate recompute keeps
    TensorList passing;  // by its forward, one after another, each until the next one is there
    std::size_t for_backward = 0;  // of what is kept the last ones, which pass if nothing is
    TensorList made;               // by its forward, until the next operator has run
    bool made_first = false;       // before what is kept
    TensorList brought;            // by a collective for its forward, as long as that runs
    TensorList brought_back;       // the same for its backward
    TensorList gradients;          // of its inputs: from its backward to that of the one before
    bool sums = false;             // over ranks: by a reduction; its backward gathers its gradient
    std::int64_t buffer = 0;       // which stays, of what its backward gathers; 0 = has none
    TensorList work;               // as long as its backward runs
    bool is_product = false;       // by cuBLAS, which takes a workspace
    int weight_tensors = 1;        // of which the weight gradient is
    std::int64_t weight_gradient = 0;  // in the weights' type; 0 = has none
    TensorList trained;                // elements of its matrices that are
    bool gradient_in_turns = false;    // a whole one for each tensor, added to the first
};

// A part of a unit between two sums of the residual stream.
struct BlockTape {
    std::vector<OperatorTape> operators;
    std::int64_t result = 0;  // and its gradient
};

struct UnitTape {
    std::vector<BlockTape> blocks;
    std::int64_t input = 0;    // kept where the whole unit is recomputed
    std::int64_t put_off = 0;  // kept between the halves of a split backward
    UnitWeights weights;
    TensorList matrices;  // trained elements: a matrix each, and the rest
    std::string what;
};

// Of the layer, or of the ends.
UnitTape layer_tape(const LayerContext& context, int layer);
UnitTape embedding_tape(const LayerContext& context);
UnitTape head_tape(const LayerContext& context);

// What a pass of an eager layer asks of the device: kernels (libraries.toml), and the collectives
// of its operators.
int launches_of(const UnitTape& tape, Phase phase);

}  // namespace stepcast
