// The layers of the model as chunks of consecutive layers on stages.
#pragma once

#include <vector>

#include "model/parallelism.h"
#include "model/workload.h"

namespace stepcast {

// Layers [first, last) of a model chunk, and whether it begins with the embedding or ends with the
// logits. A cut by modules may let it begin inside layer first - 1, with its down projection, and
// end inside layer last - 1, after its up projection.
struct Chunk {
    int stage = 0;
    int index = 0;     // among the chunks of its stage; Slot::chunk
    int position = 0;  // in its path
    int first = 0, last = 0;
    int again = 0;  // layers [first, again) are recomputed if recompute is of whole layers
    bool embedding = false, head = false;
    bool begins_inside = false, ends_inside = false;
    friend bool operator==(const Chunk&, const Chunk&) = default;
};

// The layers of each chunk, first to last: stage_layers, or as `layout` spreads them. Some may be
// negative or zero where there are too few layers; sums to the workload's layers unless
// stage_layers is wrong.
std::vector<int> chunk_layers(const Workload& workload, const Parallelism& parallelism);
// Layers of `chunks` chunks where the ends of the model count as `first` and `last` layers of their
// chunks; the remainder is in the first chunks. Ends that count more than their chunk has are
// negative.
std::vector<int> light_layers(int layers, int chunks, int first, int last);
// Every chunk between the first, with the embedding, and the last, with the logits, needs a layer.
bool all_hold_layers(const std::vector<int>& layers);

// The chunks that a micro-batch passes, in forward order. `direction` is 1 only for the second
// direction of dualpipe. Layers are spread by stage_layers or as evenly as possible; modules are
// spread as StageCut describes, and the last chunk takes the remainder.
using Path = std::vector<Chunk>;
Path chunks_of(const Workload& workload, const Parallelism& parallelism, int direction = 0);
// of each direction
std::vector<Path> paths_of(const Workload& workload, const Parallelism& parallelism);
// Indexed [stage][index].
std::vector<std::vector<Chunk>> chunks_by_stage(const std::vector<Path>& paths, int stages);

// Whether a hop between chunks `position` and position + 1 of a path goes to the next stage (from
// the last one to the first, in the ring of stages). `back`: the hop of the gradient. On the way
// back up of a V (after the stage with two consecutive chunks), forward hops go to the previous
// stage. On the lanes of the way down they would wait for messages from the other side.
bool hop_goes_up(const Path& path, int direction, int position, bool back);

// Number of copies of the model. With two, the micro-batches of stage chunk 1 run in the opposite
// direction.
int directions(const Parallelism& parallelism);

}  // namespace stepcast
