// Closed forms of a transformer's step: what it cannot beat, what it will take, and whether it fits, for any way to split
// it. From the same costs as the event engine, each priced once; no graph is built.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "sim/bounds/least.h"
#include "sim/bounds/tail.h"

namespace stepcast {

// `lower` is no more than what the event engine gives for the same experiment without jitter; `estimate` is near it and no
// less than `lower`. `peak` and `fits` are those of transformer_memory(): `fits` counts cluster.overheads.
struct StepBound {
    Seconds lower, estimate;
    Bytes peak;
    bool fits = true;
    friend bool operator==(const StepBound&, const StepBound&) = default;
};

// The pipelines that were searched for one workload and cluster: threads that share them search each once.
class FoundPipelines {
public:
    // Others wait while one thread searches the pipeline that they want too.
    template <class Search>
    const Pipeline& find(const PipelineKey& key, const Search& search) {
        Entry* entry = nullptr;
        {
            const std::lock_guard lock(mutex_);
            entry = &entries_[key];
        }
        std::call_once(entry->once, [&] { entry->found = search(); });
        return entry->found;
    }

private:
    struct Entry {
        std::once_flag once;
        Pipeline found;
    };
    std::mutex mutex_;
    std::map<PipelineKey, Entry> entries_;
};

// Of one workload on one cluster and one draw of the routing; holds what was priced. One thread at a time, so
// give each its own; they may share the pipelines, which no draw changes.
//
// To be called in nested loops. The cost of a call depends on what changed since the call before:
//   zero, overlap, overlap_params, bucket                               innermost: tens of nanoseconds
//   schedule, pp, vp, dp, global_batch, scatter_p2p, overlap_p2p        hundreds, once their pipelines were met
//   tp, cp, ep, micro_batch, sequence_parallel, recompute, all others   a look-up, once met; else tens of microseconds
class StepBounds {
public:
    // Whether these closed forms know all that the step does. They do not: other workloads than transformers, stages cut
    // between modules, blocking sends and what they resend, passes by turns (overlap_experts), operations counted one by one (parallelism.unfused, eager_script), MoE systems
    // but alltoall, ranks of different rates.
    [[nodiscard]] static bool cover(const Experiment& experiment);

    // std::logic_error for a workload that is no transformer.
    explicit StepBounds(const Experiment& base, std::shared_ptr<FoundPipelines> pipelines = std::make_shared<FoundPipelines>(),
                        int draw = 0);
    StepBounds(const StepBounds&) = delete;
    StepBounds& operator=(const StepBounds&) = delete;

    // Of a split that check_experiment() accepts with this workload and cluster, and that is covered.
    StepBound operator()(const Parallelism& p);

private:
    using ShapeKey = std::pair<std::array<int, 20>, std::string>;  // shape_of() and two sizes; rank_order
    // A path for the micro-batches of this call: how often it meets each feature, and what those take of it that data
    // parallelism leaves alone.
    struct RunPath {
        Features meets;
        bool by_host;
        double lower = 0, estimate = 0;
    };
    // A group of stages with the times of this call.
    struct GroupEnd {
        const StageGroup* group;
        std::vector<RunPath> paths;  // those under the collectives of zero 3 last
        double lower_by_host = 0, lower_by_slots = 0;  // longest paths, by what they begin with
        double slots = 0;                          // when they end, before data parallelism
        DataTimes least, most;                     // of its stage with the fewest and the most layers
        double slowdown = 0;
        double least_join = 0, join = 0;  // dualpipe: of the gradients of both copies, after the slots
        double lower = 0, estimate = 0;   // when gradients are there
    };
    struct FullStage {
        StageWeights weights;
        Moment moment;
    };

    [[nodiscard]] static ShapeKey shape_key(const Parallelism& p);
    [[nodiscard]] PipelineKey pipeline_key(const Parallelism& p) const;
    [[nodiscard]] Directions directions(const PipelineKey& key) const;
    // Each makes anew what follows from the parallelism of this call.
    void bind(const Parallelism& p);
    void bind_shape();
    void bind_groups();
    void bind_pipeline();
    void bind_sends();
    void bind_entry(double gather, double send);
    void bind_memory();
    void bind_slots();
    void bind_data();
    void bind_least();
    void bind_ends();
    [[nodiscard]] double send_time(int a, int b);
    [[nodiscard]] double copy_join(int stage, const DataTimes& data);
    [[nodiscard]] double all_reduce(Bytes bytes, const Group& group) { return prices_.collective(AllReduce{bytes}, group).si(); }
    void time(StepBound& bound) const;

    Experiment base_;
    int draw_ = 0;
    Experiment now_;  // with the parallelism of this call
    OpPrices prices_;
    DataPrices data_;
    Features reference_{};  // of one layer on one rank
    std::map<ShapeKey, BoundShape> shapes_;
    std::shared_ptr<FoundPipelines> pipelines_;
    std::map<PipelineKey, const Pipeline*> met_;  // of them: found without a lock

    // Of the last call.
    const BoundShape* shape_ = nullptr;
    const Pipeline* pipeline_ = nullptr;
    PipelineKey key_;
    Rounds rounds_;
    RankGroups groups_;
    std::optional<LayerContext> context_;
    UnitMemory units_;  // head as it lies in this pipeline
    Features lower_{}, alone_{}, estimate_{};
    double sending_ = 0;  // share of the slots during which something is sent, which slows them already
    std::vector<GroupEnd> ends_;
    std::optional<LeastCollectives> least_collectives_;  // none: nothing is added
    double least_parameters_ = 0;                    // of any stage, gathered
    std::vector<FullStage> full_;
    double norm_all_reduce_ = 0, embedding_all_reduce_ = 0;
};

}  // namespace stepcast
