// Data parallelism in closed form: what the gradient collectives, the parameter gathers and the
// update of a stage add to its pipeline. model/transformer/data_parallel.h says when they run.
#pragma once

#include <vector>

#include "model/transformer/data_parallel.h"
#include "sim/bounds/pipeline.h"

namespace stepcast {

// What is the same for all stages of a step.
struct DataInputs {
    const LayerContext& context;
    const std::array<UnitWeights, unit_kinds>& weights;
    int chunks = 1;
};

// In seconds, for one stage and one micro-batch unless said otherwise.
struct DataTimes {
    // of each unit: its gradients' exchange and its parameters' gather
    std::array<double, unit_kinds> exchanged{}, gathered{};
    double gradients = 0;          // all buckets of the stage
    double last_bucket = 0;        // the last bucket
    double first_layers = 0;       // number of layers whose gradients fill the first bucket
    double parameters = 0;         // zero 1, 2: all gathers of the stage, one for each unit
    double parameters_joined = 0;  // one gather of all parameters, after the update
    // Lower bounds. `least_last`, `least_waited`: between the last backward and the norm, if
    // collectives overlap the backward, or if they wait for its end. `least_lane`: all that the
    // data lane carries in a step.
    double least_last = 0, least_waited = 0, least_lane = 0;
    // Lower bounds. `filled`: the collective of a unit whose gradients fill a bucket alone (0 if
    // they do not). `flushed`: the collective of a unit that closes a bucket with what came before
    // it.
    std::array<double, unit_kinds> filled{}, flushed{};
    double norm = 0, update = 0;  // of a whole step
    double elements = 0;          // whose gradients this rank owns after the exchange
};

class DataPrices {
public:
    explicit DataPrices(OpPrices& prices);
    // Sets the groups for the inputs that come next.
    void bind(const RankGroups& groups);
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
    // nullptr: a group of one
    const RingPath *dense_ = nullptr, *experts_ = nullptr, *replicas_ = nullptr,
                   *expert_replicas_ = nullptr;
    std::vector<Known> known_;
};

}  // namespace stepcast
