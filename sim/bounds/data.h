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
    std::array<double, unit_kinds> exchanged{}, gathered{};  // gradients and parameters of a unit
    double gradients = 0;                                    // all buckets of the stage
    double last_bucket = 0;
    double first_layers = 0;  // layers whose gradients fill the first bucket
    double parameters = 0;    // zero 1, 2: all gathers of the stage, unit by unit
    double least_last = 0;    // between the last backward and the norm, at least: where collectives overlap,
    double least_waited = 0;  // where they wait for it
    double least_lane = 0;    // of a whole step on the data lane, at least
    std::array<double, unit_kinds> filled{}, flushed{};  // collectives of a unit that fills buckets itself (else 0), or
                                                         // closes one with what came before, at least
    double norm = 0, update = 0;                         // of a whole step
    double elements = 0;                                 // whose gradients are a rank's own once they are exchanged
    double parameters_joined = 0;                        // zero 1, 2: gathered after the update
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
