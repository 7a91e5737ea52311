// Pipeline schedules: which chunks of the model a stage holds and in which order it runs micro-batches through them.
// Orders alone: nothing here knows how long a slot takes, what is sent or which layers a chunk has.
#pragma once

#include <vector>

#include "model/parallelism.h"
#include "model/pipeline/known_schedules.h"

namespace stepcast {

// Chunks of the model that a stage holds: vp, and 2 under zb-v and dualpipe, which fix it.
int chunks_per_stage(const Parallelism& parallelism);

// ConfigError that begins with the key to change when the schedule cannot run so many stages, chunks or micro-batches.
void check_schedule(Schedule schedule, int stages, int chunks, int micro_batches);

// The order of each stage, free of deadlock when every slot waits for its inputs: forward for the forward of the chunk
// before, a backward for the backward of the chunk after and its own forward, weight_backward for its input_backward.
// Every micro-batch goes once through every chunk of its path. Throws as check_schedule() does.
std::vector<Order> schedule_orders(Schedule schedule, int stages, int chunks, int micro_batches);
// Of a step. With overlap_experts each forward that followed a backward comes before it, paired with it; dualpipe's order has the
// forward first already, and pairs are of two copies of the model one of each.
std::vector<Order> schedule_orders(const Parallelism& parallelism);

// The stages * chunks chunks in numbers that rise along the way of a micro-batch. Interleaved: chunk g is on stage
// g % stages. zb-v: down the stages, then up again. dualpipe: 0 .. stages - 1 is one copy of the model from the first
// rank to the last, stages .. 2 * stages - 1 the other copy from the last rank to the first; the first half of the
// micro-batches (with the odd one) goes through the first copy, the others through the second.
// Of its stage it is chunk g / stages.
int stage_of(Schedule schedule, int stages, int global_chunk);

// Chunks of one copy of the model, hence the chunks into which its layers are divided: dualpipe has two copies.
int model_chunks(Schedule schedule, int stages, int chunks);

}  // namespace stepcast
