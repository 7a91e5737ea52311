#include "reports/sweep_json.h"

#include <cmath>

#include <fmt/format.h>

#include "model/base/plain_text.h"
#include "reports/json.h"
#include "reports/json_parts.h"
#include "reports/sweep_tables.h"

namespace stepcast {
namespace {

using namespace json;

Json sweep_row(const SweepRow& row) {
    Json settings = Json::object();
    for (const auto& [key, value] : row.settings) settings[key] = value;
    Json json{{"settings", settings},
              {"step_s", row.step},
              {"lower_bound_s", row.lower},
              {"estimate_s", row.estimate > Seconds(0) ? Json(row.estimate) : Json(nullptr)},
              {"interval_s", interval(row.forecast.step)},
              {"tokens_per_s", row.tokens_per_second},
              {"tokens_per_s_per_gpu", row.tokens_per_second / row.ranks},
              {"model_flops_utilization", row.forecast.model_flops_utilization},
              {"model_tflops_per_gpu", row.forecast.model_flops_per_gpu / teraflops},
              {"masked_flops_utilization", row.forecast.masked_flops_utilization},
              {"peak_bytes", row.peak},
              {"within_margin", row.tight},
              {"out_of_memory", row.forecast.memory.out_of_memory},
              {"gap", row.gap},
              {"vp_alike", row.least_vp > 0 ? Json{row.least_vp, row.most_vp} : Json(nullptr)},
              {"cost_per_token", row.cost_per_token > 0 ? Json(row.cost_per_token) : Json(nullptr)},
              {"ranks", row.ranks}};
    if (row.campaign) json["training"] = campaign(*row.campaign);
    if (row.least_within) json["least_within"] = true;
    if (row.behind)
        json["behind_first"] = {{"p10", row.behind->p10},
                                {"p50", row.behind->p50},
                                {"p90", row.behind->p90},
                                {"distinguishable", row.behind->distinguishable}};
    return json;
}

Json sweep_counts(const SweepCounts& c) {
    return {{"points", c.points},        {"legal", c.legal},
            {"feasible", c.feasible},    {"bounded_away", c.bounded_away},
            {"simulated", c.simulated},  {"twins", c.twins},
            {"within_margin", c.tight},  {"illegal", c.illegal},
            {"infeasible", c.infeasible}};
}

}  // namespace

std::string to_json(const SweepAnswer& r) {
    Json json{{"experiment", r.experiment},
              {"cluster", {{"name", r.cluster}, {"calibrated", r.calibrated}}},
              {"framework", r.framework},
              {"objective", to_string(r.objective)},
              {"second_objective", r.second ? Json(to_string(*r.second)) : Json(nullptr)},
              {"work_differs", r.work_differs},
              {"one_routing", r.one_routing},
              {"margin", r.margin},
              {"varied", r.varied},
              {"where", r.where},
              {"schedules_left_out", r.schedules_left_out},
              {"switches", r.switches},
              {"outvoting", r.outvoting},
              {r.second ? "front" : "top", list(r.best, sweep_row)},
              {"scaling", list(r.scaling, sweep_row)},
              {"each_of", r.each_of},
              {"of_each", list(r.of_each, sweep_row)},
              {"counts", sweep_counts(r.counts)},
              {"proven", r.broken_bounds == 0},
              {"proof", proof_text(r)}};
    return text_of(json);
}

namespace {

// Rounded to seven digits: the page shows four and ranks by all.
double rounded(double value) {
    return std::isfinite(value) ? as_number<double>(fmt::format("{:.7g}", value)).value_or(value)
                                : 0;
}

}  // namespace

std::string map_json(const SweepAnswer& r) {
    if (!r.points || r.points->points.empty() || r.points->keys.size() < 2) return "";
    const auto point = [](const MapPoint& p) {
        Json one = p.at;
        one.insert(one.end(), {rounded(p.step.si()), rounded(p.peak.si()), p.ranks,
                               rounded(p.tokens_per_second), p.simulated});
        return one;
    };
    const Json all{
        {"experiment", r.experiment},
        {"of_token", r.points->of_token},
        {"keys", list(r.points->keys,
                      [](const MapKey& key) {
                          return Json{{"key", key.key}, {"values", key.values}};
                      })},
        {"limits_bytes", list(r.points->limits, [](Bytes limit) { return rounded(limit.si()); })},
        {"points", list(r.points->points, point)}};
    return all.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace stepcast
