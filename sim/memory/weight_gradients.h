// What gradients of weights become on their way from a backward to the update, one operator and one
// unit of the model after another: added to tensors that last, freed after the update, or reduced
// over the ranks that share the weights.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "sim/memory/flat_list.h"
#include "sim/memory/tensor_recorder.h"

namespace stepcast {

class WeightGradients {
public:
    // `flat` may be null. `root`: the ends of the model are reduced as one unit.
    WeightGradients(TensorRecorder& tensors, const LayerContext& context, FlatList* flat, bool root)
        : tensors_(tensors), c_(context), e_(context.experiment), flat_(flat), root_(root) {}

    // Of the unit, whose backward runs or has run.
    void add(const OperatorTape& op, const UnitTape& unit);
    void end_unit(const UnitTape& unit);
    void end_backward();
    // Before an update: a whole unit's gradients that micro-batches have added up.
    void reduce_whole(const UnitTape& unit);
    void end_reduction() { tensors_.free(in_flight_); }
    // That zero 1 has kept.
    TensorIds take_own();
    void end_update();

private:
    [[nodiscard]] bool shares_table(const OperatorTape& op) const;
    void accumulate(const UnitTape& unit);
    void reduce(const UnitTape& unit);
    void keep_piece(const UnitTape& unit, const RankWeights& weights, Bytes type);

    TensorRecorder& tensors_;
    const LayerContext& c_;
    const Experiment& e_;
    FlatList* flat_;
    bool root_;
    TensorIds in_flight_, of_unit_, passing_;
    std::map<std::pair<int, std::string>, TensorId> own_;
    std::map<std::pair<int, std::string>, TensorIds> whole_;
    std::set<std::int64_t> dummies_;
    RankWeights root_weights_;  // of the ends that are reduced together
    TensorIds of_root_;
};

// Whether micro-batches add up whole gradients, which are reduced once, before the update: of
// FSDP's units in a pipeline (torch 2.11, distributed/pipelining/stage.py:
// backward_maybe_with_nosync).
bool adds_up_whole(const LayerContext& context);

// The reducer's buckets of DistributedDataParallel, beside the gradients.
class ReducerBuckets {
public:
    ReducerBuckets(TensorRecorder& tensors, const LayerContext& context)
        : tensors_(tensors), c_(context) {}
    // From the last of these tensors' elements to the first; a bucket closes with the one that
    // fills it (torch/csrc/distributed/c10d/reducer.cpp: compute_bucket_assignment_by_size).
    void make(const TensorList& elements);
    // In the order in which gradients came, before the second step's first forward, the old ones
    // are still there (torch/nn/parallel/distributed.py: _pre_forward).
    void rebuild(const TensorList& elements);

private:
    TensorRecorder& tensors_;
    const LayerContext& c_;
    TensorIds buckets_;
};

}  // namespace stepcast
