// Closed forms of a transformer's step, for any way to split it: a lower bound, an estimate, and
// whether it fits. They use the costs of the event engine, each priced once, and build no graph.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "model/runtime_rules.h"
#include "sim/bounds/least.h"
#include "sim/bounds/part_keys.h"
#include "sim/bounds/tail.h"

namespace stepcast {

// `lower` is at most the step of the event engine without jitter. `estimate` is near that step and
// no less than `lower`. Both are 0 for what does not fit. `peak` and `fits` are those of
// transformer_memory(); `fits` counts cluster.overheads.
struct StepBound {
    Seconds lower, estimate;
    Bytes peak;
    bool fits = true, tight = false;  // MemoryUse
    friend bool operator==(const StepBound&, const StepBound&) = default;
};

// The pipelines searched so far for one workload and cluster, whatever [runtime] says: which paths
// are long depends little on it, and any path is one. Threads that share this object search each
// pipeline once.
class FoundPipelines {
public:
    explicit FoundPipelines(const Experiment& base) : base_(base) {}
    // Of one layer on one rank: what pipelines are searched with.
    [[nodiscard]] const FeatureTimes& reference();

    // A pipeline, and its paths once somebody asks for them: splits that do not fit need none.
    // While one thread searches, other threads that want the same wait.
    class Entry {
    public:
        const Pipeline& pipeline(const PipelineKey& key, const Workload& workload) {
            std::call_once(once_, [&] { found_ = find_pipeline(key, workload); });
            return found_;
        }
        const std::vector<GroupPaths>& paths(const PipelineKey& key, FoundPipelines& all);

    private:
        std::once_flag once_, searched_;
        Pipeline found_;
        std::vector<GroupPaths> paths_;
    };
    Entry& find(const PipelineKey& key) {
        const std::lock_guard lock(mutex_);
        return entries_[key];
    }

private:
    Experiment base_;
    std::once_flag priced_;
    FeatureTimes reference_{};
    std::mutex mutex_;
    std::map<PipelineKey, Entry> entries_;
};

// The bounds for one workload, cluster and draw of the routing; keeps what it priced. One object is
// for one thread. Objects may share the pipelines, which do not depend on the draw. Meant for
// nested loops, innermost first: the cost depends on what changed since the last call.
//   zero, exchanges.gradients, .parameters                   tens of nanoseconds
//     (zero: if no pass accumulates)
//   schedule, pp, vp, dp, global_batch, exchanges.sends,     hundreds of nanoseconds, if their
//     .scatter_sends                                         pipelines are known
//   tp, cp, ep, micro_batch, sequence_parallel,              a look-up if known, else tens of
//     recompute, all others                                  microseconds
class StepBounds {
public:
    // Whether the closed forms model everything in the step. They do not cover: other workloads
    // than transformers, adapters, reference models, Mamba layers, stages cut between modules,
    // blocking sends and resent tensors, operations counted one by one (runtime.kernels), MoE
    // systems other than alltoall, and ranks of different rates.
    [[nodiscard]] static bool cover(const Experiment& experiment);

    // Throws std::logic_error for a workload that is no transformer.
    explicit StepBounds(const Experiment& base, std::shared_ptr<FoundPipelines> pipelines = nullptr,
                        int draw = 0);
    StepBounds(const StepBounds&) = delete;
    StepBounds& operator=(const StepBounds&) = delete;

    // `plan` must be a split that check_experiment() accepts with this workload and cluster, and
    // that cover() covers.
    StepBound operator()(const ParallelPlan& plan);
    // The same with a lower bound of chains alone (sim/bounds/chains.h), which searches no path:
    // `lower` is at most that of operator(), `estimate` is 0.
    StepBound coarse(const ParallelPlan& plan);
    // What coarse() was last called for, with the least that data parallelism adds to the chains;
    // searches no path either.
    StepBound with_data();
    // The whole of what coarse() was last called for.
    StepBound refined();

private:
    // A path with the micro-batches of this call. `lower` and `estimate` are the times of its
    // features that data parallelism does not change.
    struct RunPath {
        FeatureCounts meets, turns;
        bool by_host, through_pairs;
        double lower = 0, estimate = 0;
    };
    // Of a group of stages, what the lower bound is proven from (lower.cpp).
    struct LowerEnd {
        // longest paths that begin with the host, or with a slot: without stalls and, where
        // nothing is exchanged beside them, with stalls
        double by_host = 0, by_slots = 0, by_stalls = 0;
        DataTimes data;    // of the stage with the fewest layers
        double join = 0;   // dualpipe: the sum over the gradients of both copies, after the slots
        double ready = 0;  // when the gradients are ready
    };
    // The same group, as it is estimated (estimate.cpp): nothing of this reaches the lower bound.
    struct EstimatedEnd {
        double slots = 0;  // when the slots end, without data parallelism
        DataTimes data;    // of the stage with the most layers
        double slowdown = 0;
        double join = 0;
        double ready = 0;
    };
    struct GroupEnd {
        const StageGroup* group;
        std::vector<RunPath> paths;   // the paths found for zero 3 come last
        std::size_t usual_paths = 0;  // before these
        LowerEnd lower;
        EstimatedEnd estimate;
    };
    struct FullStage {
        StageWeights weights;
        Activations moment;
    };

    // Each computes what depends on the parallelism of this call: bind() what memory needs,
    // bind_times() the rest.
    void bind(const ParallelPlan& plan);
    void bind_times();
    void bind_shape();
    Experiment& shaped();
    void bind_groups();
    void bind_pipeline();
    void bind_units();
    void bind_memory();
    void bind_ends();
    void bind_paths();
    void bind_sends();
    void bind_hops();
    void bind_stalls();
    void bind_slots();
    void bind_data();
    // lower.cpp
    // If not, collectives add nothing to the lower bound, as with uneven experts, whose ranks wait
    // for each other.
    [[nodiscard]] bool loses_to_collectives() const;
    void bind_least_collectives();
    void bind_least_paths();
    void bind_lower_ends();
    [[nodiscard]] double after_slots(const LowerEnd& end) const;
    [[nodiscard]] double chained_time() const;
    [[nodiscard]] double lower_time() const;
    [[nodiscard]] double longest_chain() const;
    [[nodiscard]] double longest_gathering_chain() const;
    // estimate.cpp
    void estimate_entry(double gather, double send);
    void estimate_slots();
    void estimate_ends();
    [[nodiscard]] double estimated_time() const;

    [[nodiscard]] double send_time(int a, int b);
    [[nodiscard]] double copy_join(int stage, const DataTimes& data);
    [[nodiscard]] double all_reduce(Bytes bytes, const Group& group) {
        return prices_.collective(AllReduce{bytes}, group).si();
    }
    // Whether all parameters are gathered after the update, under nothing.
    [[nodiscard]] bool gathers_last() const;

    Experiment base_;
    int draw_ = 0;
    Experiment now_;     // with the parallelism of this call
    Experiment shaped_;  // the same, for shapes to change
    OpPrices prices_;
    DataPrices data_;
    std::map<ShapeKey, BoundShape> shapes_;
    std::shared_ptr<FoundPipelines> pipelines_;
    // entries of pipelines_, found without a lock
    std::map<PipelineKey, FoundPipelines::Entry*> met_;

    // State of the last call.
    StepBound coarse_;
    BoundShape* shape_ = nullptr;
    FoundPipelines::Entry* entry_ = nullptr;
    const Pipeline* pipeline_ = nullptr;
    // What changed since it was last bound.
    struct Stale {
        bool ends = true, paths = true, sends = true, data = true, gradients = true;
    } stale_;
    PipelineKey key_;
    Rounds rounds_;
    RankGroups groups_;
    std::optional<LayerContext> context_;
    UnitMemory units_;  // with the head's weights in this pipeline
    FeatureTimes lower_{}, alone_{}, estimate_{};
    double sending_ = 0;  // share of the slots' kernel time that sends overlap, and so slow already
    std::vector<GroupEnd> ends_;
    // none where loses_to_collectives() says so
    std::optional<LeastCollectives> least_collectives_;
    double least_parameters_ = 0;  // the least gather time of all parameters of any stage
    std::vector<FullStage> full_;
    std::vector<double> held_;          // bytes
    std::vector<Activations> running_;  // of what runs, by its place in MemoryMoment
    double norm_all_reduce_ = 0, embedding_all_reduce_ = 0;
};

}  // namespace stepcast
