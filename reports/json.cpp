#include "reports/json.h"

#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "model/measurements.h"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity: what is not finite is null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <int S, int B, int F>
Json number(Quantity<S, B, F> value) { return number(value.si()); }

Json interval(const Interval& i) { return {{"mean", number(i.mean)}, {"p10", number(i.p10)}, {"p50", number(i.p50)}, {"p90", number(i.p90)}}; }

Json phases(const StepTimes& t) {
    return {{"forward", number(t.forward)}, {"backward", number(t.backward)}, {"gradient_sync", number(t.gradient_sync)}, {"optimizer", number(t.optimizer)}};
}

Json breakdown(const Breakdown& b) {
    return {{"compute", number(b.compute)}, {"memory", number(b.memory)}, {"exposed_communication", number(b.exposed_communication)},
            {"bubble", number(b.bubble)}, {"imbalance", number(b.imbalance)}, {"host", number(b.host)}};
}

Json memory(const MemoryUse& m) {
    return {{"peak", number(m.peak)}, {"weights", number(m.weights)}, {"gradients", number(m.gradients)},
            {"optimizer", number(m.optimizer)}, {"activations", number(m.activations)}, {"buffers", number(m.buffers)}};
}

Json kernels(const std::vector<KernelTime>& times) {
    Json by_name = Json::object();
    for (const KernelTime& k : times) by_name[k.name].push_back({{"rank", k.rank}, {"phase", to_string(k.phase)}, {"time_s", number(k.time)}});
    return by_name;
}

Json row(const Comparison& c) {
    Json j{{"source", c.what.source}, {"case_id", c.what.case_id}, {"series", c.what.series}, {"measured_s", number(c.what.measured_step)}};
    if (c.forecast) {
        j["predicted_s"] = number(c.forecast->step.p50);
        j["p10_s"] = number(c.forecast->step.p10);
        j["p50_s"] = number(c.forecast->step.p50);
        j["p90_s"] = number(c.forecast->step.p90);
        j["error"] = number(relative_error(c));
        j["inside_interval"] = inside_interval(c);
        j["calibrated"] = c.forecast->calibrated;
        j["notes"] = c.forecast->notes;
    } else {
        j["refused_because"] = c.refused_because;
    }
    j["assumptions"] = c.what.assumptions;
    return j;
}

Json sampled(std::vector<double> values) {
    if (values.empty()) return nullptr;
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    return {{"mean", mean}, {"p10", quantile(values, 0.1)}, {"p50", quantile(values, 0.5)}, {"p90", quantile(values, 0.9)}};
}

}  // namespace

std::string to_json(const Forecast& f) {
    const Json j{{"experiment", f.experiment},
                 {"cluster", {{"name", f.cluster}, {"calibrated", f.calibrated}}},
                 {"step_s", interval(f.step)},
                 {"phases_s", phases(f.phases)},
                 {"breakdown_s", breakdown(f.breakdown)},
                 {"memory_bytes", memory(f.memory)},
                 {"fits", f.memory.fits},
                 {"tokens_per_s", number(f.tokens_per_second)},
                 {"model_flops_utilization", number(f.model_flops_utilization)},
                 {"tasks", f.tasks},
                 {"ranks_simulated", f.ranks_simulated},
                 {"draws", f.draws},
                 {"forward_s", interval(f.forward)},
                 {"backward_s", interval(f.backward)},
                 {"kernels_s", kernels(f.kernels)},
                 {"notes", f.notes}};
    return j.dump(2);
}

std::string to_json(const CompareSummary& s, const std::vector<Comparison>& comparisons) {
    Json refused = Json::array(), rows = Json::array();
    for (const Comparison& c : comparisons) {
        rows.push_back(row(c));
        if (!c.forecast) refused.push_back({{"source", c.what.source}, {"case_id", c.what.case_id}, {"reason", c.refused_because}});
    }
    const bool any = s.predicted > 0;
    const auto figure = [&](double value) { return any ? number(value) : Json(nullptr); };
    const Json j{{"cases", s.cases},
                 {"predicted", s.predicted},
                 {"refused", refused},
                 {"mape", figure(s.mape)},
                 {"median_ape", figure(s.median_ape)},
                 {"p90_ape", figure(s.p90_ape)},
                 {"bias", figure(s.bias)},
                 {"rank_correlation", s.rank_correlation ? number(*s.rank_correlation) : Json(nullptr)},
                 {"inside_interval", figure(s.inside_interval)},
                 {"worst", {{"case_id", s.worst_case}, {"error", figure(s.worst_error)}}},
                 {"rows", rows}};
    return j.dump(2);
}

std::string to_json(const std::string& experiment, const Measurement& m) {
    std::vector<double> accepted;
    Json samples = Json::array();
    for (const MeasuredStep& step : m.steps) {
        if (step.accepted) accepted.push_back(step.times.step.si());
        samples.push_back({{"step_s", number(step.times.step)}, {"accepted", step.accepted}, {"cpu_share", number(step.cpu_share)}});
    }
    const Json j{{"experiment", experiment},
                 {"device", m.device},
                 {"date", m.date},
                 {"versions", m.versions},
                 {"step_s", sampled(accepted)},
                 {"phases_s", phases(median_times(m))},
                 {"steps", m.steps.size()},
                 {"accepted", accepted.size()},
                 {"warmup", m.warmup},
                 {"quiet", m.quiet},
                 {"idle_share", number(m.idle_share)},
                 {"warnings", m.warnings},
                 {"samples", samples}};
    return j.dump(2);
}

}  // namespace stepcast
