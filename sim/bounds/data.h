// Data parallelism in closed form: what the collectives of gradients, parameters and the update of a stage add to its
// pipeline. Source of what happens when: model/transformer/data_parallel.h.
#pragma once

#include <vector>

#include "model/transformer/data_parallel.h"
#include "sim/bounds/pipeline.h"

namespace stepcast {

// How a stage takes part; of the whole step.
struct DataInputs {
    const LayerContext& context;
    const std::array<UnitWeights, unit_kinds>& weights;
    int chunks = 1;
};

// In seconds, of one stage and micro-batch unless said otherwise.
struct DataTimes {
    std::array<double, unit_kinds> exchanged{}, gathered{};  // the gradients of a unit, and its parameters
    double gradients = 0;      // all buckets of the stage,
    double last_bucket = 0;    // and the last of them
    double first_layers = 0;   // how many layers' gradients fill the first bucket
    double parameters = 0;     // zero 1, 2: all gathers of the stage, unit by unit,
    double parameters_joined = 0;  // and all in one, after the update
    // At least: what is left between the last backward and the norm, where collectives overlap the backward and where they wait for
    // its end; and all that the data lane carries in a step.
    double least_last = 0, least_waited = 0, least_lane = 0;
    // At least: the collective of a unit whose gradients fill a bucket by themselves (0 where they do not), and that of one that
    // closes a bucket with what came before it.
    std::array<double, unit_kinds> filled{}, flushed{};
    double norm = 0, update = 0;  // of a whole step
    double elements = 0;          // whose gradients are a rank's own once they are exchanged
};

class DataPrices {
public:
    explicit DataPrices(OpPrices& prices);
    // The groups of these inputs come next.
    void bind(const RankGroups& groups, bool sharded);
    [[nodiscard]] DataTimes times(const DataInputs& in, const UnitCounts& units);

private:
    enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter };
    struct Known {
        const RingPath* path = nullptr;
        Kind kind{};
        double bytes = -1, time = 0;
    };
    double collective(Kind kind, const RingPath* path, double bytes);
    double gradients(const DataInputs& in, double dense, double experts);
    double gathers(const DataInputs& in, const RankWeights& weights);
    void add_buckets(const DataInputs& in, const UnitCounts& units, DataTimes& times);
    void add_update(const DataInputs& in, const UnitCounts& units, DataTimes& times);
    void add_least(const DataInputs& in, const UnitCounts& units, DataTimes& times);

    OpPrices& prices_;
    const RingPath *dense_ = nullptr, *experts_ = nullptr, *replicas_ = nullptr, *expert_replicas_ = nullptr;  // none: a group of one
    std::vector<Known> known_;
};

}  // namespace stepcast
