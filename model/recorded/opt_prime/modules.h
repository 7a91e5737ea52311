// Stages cut by modules (parallelism.cut = modules), as a tracer of OptPrime's cut the recorded
// Llama pipeline (notes/recorded-runs.md): a stage may begin and end inside a layer.
#pragma once

#include <iterator>
#include <string_view>
#include <vector>

#include "model/parallelism.h"
#include "model/workload.h"

namespace stepcast {

struct Chunk;

// The modules of a layer that StageCut::modules counts.
inline constexpr std::string_view layer_modules[] = {"q_proj",    "k_proj", "v_proj",  "o_proj",
                                                     "gate_proj", "act_fn", "up_proj", "down_proj"};
inline constexpr int modules_per_layer = std::size(layer_modules);

// The first module of a stage; the embedding is module 0.
int first_module(const Workload& workload, const Parallelism& parallelism, int stage);
int module_count(const Workload& workload);

// Sets the layers of the chunks, and which of them begin or end inside a layer.
void cut_by_modules(const Workload& workload, const Parallelism& parallelism,
                    std::vector<Chunk>& chunks);

}  // namespace stepcast
