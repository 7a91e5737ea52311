// What a sweep found: plain values that sweep() fills and reports print.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/answers/campaign.h"
#include "model/answers/forecast.h"

namespace stepcast {

// What is made small: the step, the time or the price of a token, or the peak memory.
NAMED_ENUM(Objective, "an objective", step, tokens, cost, memory);

using Settings = std::vector<std::pair<std::string, std::string>>;  // varied key, value

// How much worse a configuration is than the first, as a share of it: over the draws that both met, and by how far forecasts
// of pairs are off (sim/interval.h). Where its interval contains zero, or the draws are too few to tell, the two are not
// distinguishable.
struct Behind {
    double p10 = 0, p50 = 0, p90 = 0;
    bool distinguishable = true;
    friend bool operator==(const Behind&, const Behind&) = default;
};
// Over draws alone: of scores by draw, of the same draws in the same order.
Behind behind(const std::vector<double>& scores, const std::vector<double>& of_first);

// One configuration that was simulated. `step` is the median over the draws, which it is ranked by; tokens/s, utilization
// and cost are of that step. `lower` and `estimate` are what the closed form said before; 0 where it does not cover the
// workload.
struct SweepRow {
    Settings settings = {};
    Seconds step, lower, estimate;
    Bytes peak;
    double tokens_per_second = 0;
    double cost_per_token = 0;  // 0 without cluster.price_per_gpu_hour
    int ranks = 0;
    Forecast forecast = {};  // of the same draws
    std::optional<Campaign> campaign = {};  // where a training was asked
    std::optional<Behind> behind = {};  // the first
    bool least_within = false;          // of_each: the fewest ranks of its kind that end in time
    friend bool operator==(const SweepRow&, const SweepRow&) = default;
};

// points = legal + illegal; legal = infeasible + feasible; feasible = bounded_away + simulated. `twins` of
// the simulated differ from another only in switches that do nothing and took its step.
struct SweepCounts {
    std::uint64_t points = 0, legal = 0, feasible = 0, bounded_away = 0, simulated = 0, twins = 0;
    std::map<std::string, std::uint64_t> illegal, infeasible;  // by reason
    friend bool operator==(const SweepCounts&, const SweepCounts&) = default;
};

// The best of each pair of values of two varied keys; 0 where nothing is feasible. `simulated` tells the event engine's
// steps from estimates of the closed form.
struct HeatMap {
    std::string row_key, column_key;
    std::vector<std::string> rows, columns;
    std::vector<Seconds> step;  // rows x columns
    bool simulated = false;
    bool of_token = false;  // time of a token, where tokens rank
    friend bool operator==(const HeatMap&, const HeatMap&) = default;
};

// What a person can turn in their hands: for every two varied keys and every limit of memory the best of each pair of
// values is among `points`, so that a choice of axes and limit shows what walking all of them would.
struct MapKey {
    std::string key;
    std::vector<std::string> values;
    friend bool operator==(const MapKey&, const MapKey&) = default;
};
struct MapPoint {
    std::vector<std::uint16_t> at;  // number of its value, key by key
    Seconds step;                   // the event engine's where `simulated`, else the closed form's
    Bytes peak;
    double tokens_per_second = 0;
    int ranks = 0;
    bool simulated = false;
    friend bool operator==(const MapPoint&, const MapPoint&) = default;
};
struct SweepMap {
    std::vector<MapKey> keys;  // that vary among the points
    std::vector<MapPoint> points;
    std::vector<Bytes> limits;  // rising
    bool of_token = false;      // tokens/s rank
    friend bool operator==(const SweepMap&, const SweepMap&) = default;
};

struct SweepAnswer {
    std::string experiment, cluster, framework = {};
    bool calibrated = false;  // every machine of the rows below
    Objective objective = Objective::step;
    std::optional<Objective> second;  // then `best` is their Pareto front, by rising first objective
    bool work_differs = false;        // tokens of a step differ between configurations: `step` was asked, `tokens` ranks
    bool one_routing = false;         // ranked by one draw of a routing that is drawn: another may rank otherwise
    int asked = 0;                    // how many best ones
    std::vector<std::string> varied = {}, where = {};
    std::vector<std::string> schedules_left_out = {};  // of parallelism=all
    std::vector<SweepRow> best = {};
    std::vector<SweepRow> scaling = {};  // the best of each number of ranks, where that varies
    std::vector<std::string> each_of = {};  // keys whose every setting has its best in ..
    std::vector<SweepRow> of_each = {};
    std::optional<Seconds> within = {};  // what a training may take
    SweepCounts counts = {};
    std::optional<HeatMap> map = {};
    std::optional<SweepMap> points = {};  // where a map was asked
    // How many simulated configurations were faster than their lower bound: none, or `best` is not proven.
    std::uint64_t broken_bounds = 0;
    friend bool operator==(const SweepAnswer&, const SweepAnswer&) = default;
};

// "the best 10 of 10,560,000 configurations: ..": why nothing else can be among the best.
std::string proof_text(const SweepAnswer& result);

}  // namespace stepcast
