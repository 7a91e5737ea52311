// Pipeline schedules: which chunks of the model a stage holds, and in which order it runs
// micro-batches through them. This code knows only orders, not how long a slot takes, what is sent
// or which layers a chunk has.
#pragma once

#include <vector>

#include "model/parallelism.h"
#include "model/transformer/known_schedules.h"

namespace stepcast {

// Chunks of the model per stage: vp, but always 2 under zb-v and dualpipe.
int chunks_per_stage(const Parallelism& parallelism);

// Why a schedule cannot run so many stages, chunks or micro-batches.
enum class ScheduleFault { none, chunks, odd_stages, micro_batches, rounds };
ScheduleFault schedule_fault(Schedule schedule, int stages, int chunks, int micro_batches);

ScheduleFault schedule_fault(const Parallelism& parallelism);

// Throws ConfigError that begins with the key to change if there is a fault.
void check_schedule(Schedule schedule, int stages, int chunks, int micro_batches);
void check_schedule(const Parallelism& parallelism);

// The order of each stage. It is free of deadlock if every slot waits for its inputs: a forward for
// the forward of the previous chunk, a backward for its own forward and the backward of the next
// chunk, a weight_backward for its input_backward. Every micro-batch passes every chunk of its path
// once. Throws as check_schedule() does.
std::vector<Order> schedule_orders(Schedule schedule, int stages, int chunks, int micro_batches);
// The orders of a step. With overlap_experts, a forward that followed a backward moves before it
// and is paired with it. dualpipe's order already has the forward first; a pair has one slot of
// each copy of the model.
std::vector<Order> schedule_orders(const Parallelism& parallelism);

// Numbers the stages * chunks chunks in the order in which a micro-batch passes them. Interleaved:
// chunk g is on stage g % stages. zb-v: down the stages, then up again. dualpipe: chunks 0 ..
// stages - 1 are one copy of the model from the first rank to the last, chunks stages .. 2 * stages
// - 1 the other copy from the last rank to the first. The first half of the micro-batches (with the
// odd one) passes the first copy, the others the second. Chunk g is chunk g / stages of its stage.
int stage_of(Schedule schedule, int stages, int global_chunk);

// Number of chunks into which the model's layers are divided: those of one copy, and dualpipe has
// two copies.
int model_chunks(Schedule schedule, int stages, int chunks);
int model_chunks(const Parallelism& parallelism);

// Whether the ends of the model, embedding and logits, are on different stages.
bool ends_apart(const Parallelism& parallelism);

}  // namespace stepcast
