// Gradients, parameters and optimizer of one stage over its data-parallel ranks.
//   zero 0  all-reduce of gradient buckets; every rank updates all weights
//   zero 1  reduce-scatter of the buckets, each rank updates its shard, all-gather of the
//   parameters zero 2  the same, reduce-scatter in every micro-batch zero 3  parameters are
//   gathered layer by layer before forward and backward, gradients scattered after each backward;
//           a layer is fetched while the previous one runs (Zhao et al., PyTorch FSDP, arXiv
//           2304.11277)
// A bucket closes when it holds runtime.gradients.bucket bytes; layers fill it in the order of
// their backward. Without overlap the buckets are sent after the last backward. Expert weights have
// their own group and bucket. Source: ZeRO, arXiv 1910.02054; PyTorch DDP, arXiv 2006.15704.
#pragma once

#include <array>
#include <string_view>

#include "model/transformer/muon.h"
#include "model/transformer/stage.h"
#include "model/transformer/weights.h"

namespace stepcast {

// A weight as ranks gather it: what products read under ZeRO 3, else as it is stored.
Bytes gathered_weight(const Experiment& e);

// The copy that brings this rank's share of a unit's weights where the host keeps them
// (run.offload_parameters). DeepSpeed 0.16.7, runtime/zero/partition_parameters.py: each shard's
// .to(device) before the gather, on the gathers' stream; PyTorch 2.6, FSDP2's CPUOffloadPolicy.
MemoryPass from_host(const Experiment& experiment, double weights);

// The element-wise passes of an update cover the elements that this rank updates. Zeroing covers
// the gradients that the rank keeps: all, or under zero 2 and 3, which accumulate shards, only
// those of its shard.
struct UpdatePasses {
    static constexpr std::size_t most = 6;
    MemoryPass copies;  // around the reduction, of all micro-batches
    std::array<MemoryPass, most> norm;
    std::array<std::string_view, most> norm_names;
    std::array<double, most> norm_calls{};  // of the host
    std::array<bool, most> norm_reads{};    // the host waits for a value made of them
    int norm_passes = 0;
    double copies_calls = 0, optimizer_calls = 0;
    MemoryPass optimizer, zero_gradients;
    MemoryPass to_host, from_host;  // of an optimizer on the host
};
// `matrices`: of the updated ones, those in matrices that Muon orthogonalizes.
UpdatePasses update_passes(const Experiment& experiment, double updated, double gradients,
                           double matrices = 0);

class DataParallel {
public:
    DataParallel(TaskGraph& graph, const LayerContext& context, Stage& stage);

    // zero 3: fetches the weights of a unit (a layer or an end of the model); the stage's next
    // forward or backward follows it. zero 1, 2 with overlap_params: those that the previous step
    // updated. `after`: tasks that must have finished before, which limits how far ahead it
    // fetches.
    TasksByRank gather(const RankWeights& weights, Phase phase, const TasksByRank& after);
    // Call when a unit's gradients are complete for this micro-batch; `last`: for this step.
    void add_gradients(const RankWeights& weights, bool last);
    void flush();  // closes the open buckets

    // After the last backward: writes the remaining collectives, and the copies around all of them.
    // The stage's next tasks follow.
    void finish_gradients();
    void add_norm();  // reads all gradients
    // includes the gather of parameters unless that overlaps the next forward
    void add_optimizer();
    [[nodiscard]] const RankWeights& total() const { return total_; }
    void count(const RankWeights& weights) { total_ += weights; }
    void count_matrices(int layer);  // of Muon
    // Elements that this rank's optimizer updates: those whose gradients it owns after
    // finish_gradients().
    [[nodiscard]] double updated() const { return shared_out(context_, total_, 1); }

private:
    struct Bucket {
        double elements = 0;
        GroupId group = 0;
        int ranks = 1;
        Group replicas;  // ranks that hold the same shard
    };
    void close(Bucket& bucket);
    void collective(const Bucket& bucket, const TasksByRank& after);

    TaskGraph& graph_;
    const LayerContext& context_;
    Stage& stage_;
    [[nodiscard]] UpdatePasses passes() const;

    RankWeights total_;
    MuonMatrices matrices_;
    Bucket dense_, experts_;
    std::vector<Bucket> waiting_;  // without overlap: buckets to send after the last backward
    std::vector<TasksByRank> sent_;
};

}  // namespace stepcast
