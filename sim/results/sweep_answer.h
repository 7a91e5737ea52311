// The result of a sweep: plain values that sweep() fills and reports print.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/results/campaign.h"
#include "sim/results/forecast.h"

namespace stepcast {

// What the sweep minimises: the step, the time per token, the price per token, or the peak memory.
NAMED_ENUM(Objective, "an objective", step, tokens, cost, memory);

// each a varied key and its value
using Settings = std::vector<std::pair<std::string, std::string>>;

// How much worse a configuration is than the best one, as a share of the best. The interval covers
// the draws of both and the known error of forecasts of pairs (sim/interval.h). If it contains
// zero, or the draws are too few, the two are not distinguishable.
struct Behind {
    double p10 = 0, p50 = 0, p90 = 0;
    bool distinguishable = true;
    friend bool operator==(const Behind&, const Behind&) = default;
};
// The same from draws alone; both lists hold the scores of the same draws in the same order.
Behind behind(const std::vector<double>& scores, const std::vector<double>& of_first);

// One simulated configuration. `step` is the median over the draws and ranks the configurations;
// tokens/s, utilization and cost belong to that step. `lower` and `estimate` are the closed form's
// bound and estimate; both are 0 where it does not cover the workload.
struct SweepRow {
    Settings settings = {};
    Seconds step, lower, estimate;
    Bytes peak;
    bool tight = false;  // within the margin of the device's memory
    // By how much of this one's score another configuration may be ahead of it at its rank, at
    // most; 0: proven.
    double gap = 0;
    // vp of neighbours that differ in it alone and are estimated within 1 %; 0: not looked at
    int least_vp = 0, most_vp = 0;
    double tokens_per_second = 0;
    double cost_per_token = 0;  // 0 without cluster.price_per_gpu_hour
    int ranks = 0;
    Forecast forecast = {};                 // of the same draws
    std::optional<Campaign> campaign = {};  // if the sweep was asked for a training
    std::optional<Behind> behind = {};      // how far behind the best configuration
    bool least_within = false;  // in of_each: the fewest ranks of its kind that end in time
    friend bool operator==(const SweepRow&, const SweepRow&) = default;
};

// points = legal + illegal; legal = infeasible + feasible; feasible = bounded_away + simulated.
// `twins` counts the simulated ones that took the step of another configuration because they differ
// from it only in switches without effect. `tight` counts the feasible ones within the margin.
struct SweepCounts {
    std::uint64_t points = 0, legal = 0, feasible = 0, bounded_away = 0, simulated = 0, twins = 0,
                  tight = 0;
    std::map<std::string, std::uint64_t> illegal, infeasible;  // by reason
    friend bool operator==(const SweepCounts&, const SweepCounts&) = default;
};

// The best step for each pair of values of two varied keys; 0 where nothing is feasible.
// `simulated` is true for steps of the event engine, false for estimates of the closed form.
struct HeatMap {
    std::string row_key, column_key;
    std::vector<std::string> rows, columns;
    std::vector<Seconds> step;  // rows x columns
    bool simulated = false;
    bool of_token = false;  // values are times per token, where the sweep ranks by tokens
    friend bool operator==(const HeatMap&, const HeatMap&) = default;
};

// Data for an interactive map: for every two varied keys and every memory limit, `points` contains
// the best configuration of each pair of values. A choice of axes and limit therefore shows the
// same as a search of all configurations.
struct MapKey {
    std::string key;
    std::vector<std::string> values;
    friend bool operator==(const MapKey&, const MapKey&) = default;
};
struct MapPoint {
    std::vector<std::uint16_t> at;  // for each key, the index of its value
    // from the event engine if `simulated`, else from the closed form
    Seconds step;
    Bytes peak;
    double tokens_per_second = 0;
    int ranks = 0;
    bool simulated = false;
    friend bool operator==(const MapPoint&, const MapPoint&) = default;
};
struct SweepMap {
    std::vector<MapKey> keys;  // only keys that vary among the points
    std::vector<MapPoint> points;
    std::vector<Bytes> limits;  // ascending
    bool of_token = false;      // the sweep ranks by tokens/s
    friend bool operator==(const SweepMap&, const SweepMap&) = default;
};

struct SweepAnswer {
    std::string experiment, cluster, framework = {};
    bool calibrated = false;  // every machine of the rows below is calibrated
    Objective objective = Objective::step;
    // if set, `best` is the Pareto front, ascending in the first objective
    std::optional<Objective> second;
    // `step` was asked, but steps differ in tokens, so `tokens` ranks
    bool work_differs = false;
    // the routing is drawn but only one draw ranks: another draw may rank differently
    bool one_routing = false;
    // `best` are different splits, each with the best of its other switches
    bool distinct = false;
    int asked = 0;      // how many best configurations were asked for
    double margin = 0;  // cluster.overheads.margin
    std::vector<std::string> varied = {}, where = {};
    std::vector<std::string> schedules_left_out = {};  // those that parallelism=all left out
    std::vector<std::string> switches = {};  // of the framework, that parallelism=all walked
    // "runtime.exchanges.tensor = never (split_sequence)": stated, its framework sets the other
    std::vector<std::string> outvoting = {};
    std::vector<SweepRow> best = {};
    std::vector<SweepRow> scaling = {};     // the best for each number of ranks, where that varies
    std::vector<std::string> each_of = {};  // keys for whose every setting `of_each` has the best
    std::vector<SweepRow> of_each = {};
    std::optional<Seconds> within = {};  // time limit of a training
    SweepCounts counts = {};
    std::optional<HeatMap> map = {};
    std::optional<SweepMap> points = {};  // if a map was asked for
    // Number of simulated configurations that were faster than their lower bound. If it is not 0,
    // `best` is not proven.
    std::uint64_t broken_bounds = 0;
    friend bool operator==(const SweepAnswer&, const SweepAnswer&) = default;
};

// "the best 10 of 10,560,000 configurations: ..": the reason why no other configuration can be
// among the best.
std::string proof_text(const SweepAnswer& result);

}  // namespace stepcast
