// The parts of a contrastive captioner's step: the blocks of its towers, their parameters and their
// plans.
#pragma once

#include <string>
#include <vector>

#include "model/base/units.h"
#include "model/block/block_pass.h"
#include "model/runtime_rules.h"
#include "model/workload.h"

namespace stepcast {

// A block of a tower: attention of `seq` positions to `keys`, then a feed-forward. It determines
// parameters, arithmetic, kernels, memory.
struct TowerBlock : Tower {
    std::string name = {};  // prefix of its tasks' names
    long keys = 0;          // number of positions attended to
    long key_width = 0;     // width of those positions before projection
    bool cross = false;
    // A pooler has no feed-forward and no residual, and its queries are parameters.
    [[nodiscard]] bool pools() const { return ffn == 0; }
};

// The parameters of a model of several towers, tensor by tensor, in the groups that its optimizer
// receives. Each layer has its own learning rate and two groups: tensors that decay (matrices) and
// others (biases, norms, positions). ZeRO cuts groups into pieces.
struct ParameterTensor {
    double elements = 0;
    // layer or end whose backward makes its gradient: "decoder.layer3", "text.start"
    std::string unit;
};
using ParameterGroup = std::vector<ParameterTensor>;

// ZeRO 1 stores a group flat, padded to a multiple of 2 x ranks elements, and cuts it into one
// piece per rank (DeepSpeed's stage_1_and_2). A tensor may lie on several ranks.
struct Slice {
    int rank = 0;
    double elements = 0;
    friend bool operator==(const Slice&, const Slice&) = default;
};

// The passes of a model of several towers as plans (model/transformer/plan.h), operation by
// operation as an eager framework runs them: every tensor that is read or written counts.

// The micro-batch of one rank.
struct TowerContext {
    const Experiment& experiment;
    Group data;  // the data-parallel ranks
    [[nodiscard]] const Workload& workload() const { return experiment.workload; }
    [[nodiscard]] long batch() const { return experiment.parallelism.micro_batch; }
    [[nodiscard]] Bytes element() const { return size_of(experiment.workload.dtype); }
    // Whether autocast makes fp32 copies of 16-bit tensors, with twice their bytes.
    [[nodiscard]] bool casts() const { return experiment.runtime.autocast && element() < Bytes(4); }
};

// Sizes of a block's tensors: rows of the model's width, of the attended positions, of the inner
// width, and scores.
struct BlockSizes {
    Bytes rows, keys, inner, scores;
};

}  // namespace stepcast
