// Where the layers of the model live: chunks of consecutive layers, on stages.
#pragma once

#include <iterator>
#include <string_view>
#include <vector>

#include "model/parallelism.h"
#include "model/workload.h"

namespace stepcast {

// Layers [first, last) of a model chunk, and whether it begins with the embedding or ends with the logits. Cut by modules it
// may begin inside layer first - 1, with its down projection, and end inside layer last - 1, behind its up projection.
struct Chunk {
    int stage = 0;
    int index = 0;  // among the chunks of its stage: what a Slot calls `chunk`
    int first = 0, last = 0;
    int again = 0;  // layers [first, again) run again where recompute is of whole layers
    bool embedding = false, head = false;
    bool begins_inside = false, ends_inside = false;
    friend bool operator==(const Chunk&, const Chunk&) = default;
};

// The chunks that a micro-batch goes through, in forward order. `direction` is 0 but for the second direction of
// dualpipe. Layers are spread by stage_layers, or as evenly as possible; modules as StageCut says, the last chunk taking
// what is left over.
std::vector<Chunk> chunks_of(const Workload& workload, const Parallelism& parallelism, int direction = 0);

// Whether a hop between chunks `position` and position + 1 of a path goes to the next stage, or, round the ring of stages, to the first; `back`: the
// gradient's. On the way back up of a V, behind the stage that holds two chunks in a row, what goes forward goes to the stage before: on the lanes of
// the way down it would wait for what comes from the other side.
bool hop_goes_up(const std::vector<Chunk>& path, int direction, int position, bool back);

// The modules of a layer that StageCut::modules counts.
inline constexpr std::string_view layer_modules[] = {"q_proj",    "k_proj", "v_proj",  "o_proj",
                                                     "gate_proj", "act_fn", "up_proj", "down_proj"};
inline constexpr int modules_per_layer = std::size(layer_modules);

// The first module of a stage, counted from the embedding (0).
int first_module(const Workload& workload, const Parallelism& parallelism, int stage);
int module_count(const Workload& workload);

// Copies of the model; of two, micro-batches of stage chunk 1 go the other way.
int directions(const Parallelism& parallelism);

}  // namespace stepcast
