// What is trained. Says nothing about GPUs or how it is split.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/dtype.h"

namespace stepcast {

enum class Optimizer : std::uint8_t { none, sgd, adam, lamb };
std::string_view to_string(Optimizer optimizer);
Optimizer parse_optimizer(std::string_view text);

// A mixture-of-experts feed-forward block: `experts` of a layer over all ranks; 0 means dense.
struct Moe {
    int experts = 0;
    int top_k = 2;
    double capacity_factor = 0;  // 0 = dropless
    int shared_experts = 0;
    friend bool operator==(const Moe&, const Moe&) = default;
};

// `kind` says how the shapes are read. moe_layer: `layers` times gate + experts (two GEMMs hidden x ffn and back,
// GELU between), forward and backward, no optimizer; mlp: `layers` times two dense GEMMs of those shapes with GELU
// between, gradients all-reduced over the data-parallel ranks in buckets, then the optimizer.
struct Workload {
    enum class Kind : std::uint8_t { moe_layer, mlp };
    std::string name;
    Kind kind = Kind::moe_layer;
    int layers = 1;
    int hidden = 0;
    int heads = 0;
    int kv_heads = 0;
    int ffn = 0;
    int vocab = 0;
    int seq = 0;
    Dtype dtype = Dtype::fp16;
    Optimizer optimizer = Optimizer::none;
    Moe moe;
    friend bool operator==(const Workload&, const Workload&) = default;
};
std::string_view to_string(Workload::Kind kind);
Workload::Kind parse_workload_kind(std::string_view text);

}  // namespace stepcast
