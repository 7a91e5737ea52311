// Gradients, parameters and optimizer of one stage over its data-parallel ranks.
//   zero 0  all-reduce of gradient buckets; every rank updates all weights
//   zero 1  reduce-scatter of the buckets, each rank updates its shard, all-gather of the parameters
//   zero 2  the same, reduce-scatter in every micro-batch
//   zero 3  parameters are gathered layer by layer before forward and backward, gradients scattered after each backward;
//           a layer is fetched while the one before it runs (Zhao et al., PyTorch FSDP, arXiv 2304.11277)
// A bucket closes when it holds parallelism.bucket bytes; layers fill it in the order of their backward. Without overlap
// the buckets go after the last backward. Expert weights have a group and a bucket of their own. Source: ZeRO, arXiv
// 1910.02054; PyTorch DDP, arXiv 2006.15704.
#pragma once

#include <array>
#include <string_view>

#include "model/transformer/stage.h"
#include "model/transformer/weights.h"

namespace stepcast {

// The element-wise passes of an update: over the elements that this rank updates; set to zero are the gradients that it keeps,
// all of them or (zero 2 and 3, whose gradients are accumulated as shards) those alone.
struct UpdatePasses {
    std::array<MemoryPass, 3> norm;
    std::array<std::string_view, 3> norm_names;
    int norm_passes = 0;
    MemoryPass optimizer, zero_gradients;
};
UpdatePasses update_passes(const Experiment& experiment, double updated, double gradients);

class DataParallel {
public:
    DataParallel(TaskGraph& graph, const LayerContext& context, Stage& stage);

    // zero 3: fetches the weights of a unit (a layer or an end of the model); the next forward or backward of the stage
    // follows. `after`: what must have finished before (limits how much is fetched ahead).
    TasksByRank gather(const RankWeights& weights, Phase phase, const TasksByRank& after);
    // A unit's gradients are complete for this micro-batch; `last`: for this step.
    void add_gradients(const RankWeights& weights, bool last);
    void flush();  // closes the open buckets
    // zero 1, 2 with overlap_params: the gather of a unit's parameters that the step before has updated.
    TasksByRank fetch_updated(const RankWeights& weights);

    // After the last backward: what is left of the collective. What the stage does next follows all of it.
    void finish_gradients();
    void add_norm();       // reads all gradients
    void add_optimizer();  // and gathers parameters where that does not overlap the next forward
    [[nodiscard]] const RankWeights& total() const { return total_; }
    void count(const RankWeights& weights) { total_ += weights; }
    // Elements that this rank's optimizer updates: those whose gradients are its own after finish_gradients().
    [[nodiscard]] double updated() const;

private:
    struct Bucket {
        double elements = 0;
        GroupId group = 0;
        int ranks = 1;
        Group replicas;  // zero 3: of each rank's shard
    };
    void close(Bucket& bucket);
    void collective(const Bucket& bucket, const TasksByRank& after);
    void add_bucket_copies(Planner& planner) const;

    TaskGraph& graph_;
    const LayerContext& context_;
    Stage& stage_;
    RankWeights total_;
    Bucket dense_, experts_;
    std::vector<Bucket> waiting_;  // without overlap: until the last backward
    std::vector<TasksByRank> sent_;
};

}  // namespace stepcast
