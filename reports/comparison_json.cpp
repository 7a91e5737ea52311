#include "reports/comparison_json.h"

#include "model/base/lists.h"
#include "model/records/measurements.h"
#include "reports/json.h"
#include "reports/json_parts.h"
#include "reports/kernel_tables.h"

namespace stepcast {
namespace {

using namespace json;

Json phase_rows(const Comparison& c) {
    return list(phase_comparisons(c), [](const PhaseComparison& p) {
        return Json{{"phase", p.name},
                    {"rank", p.rank},
                    {"measured_s", p.measured},
                    {"predicted_s", p.predicted},
                    {"error",
                     p.measured > Seconds(0) ? Json(p.predicted / p.measured - 1) : Json(nullptr)}};
    });
}

const char* key_of(Evidence evidence) {
    return evidence == Evidence::fitted ? "fitted" : evidence == Evidence::seen ? "seen" : "unseen";
}

// All rows have the same keys; values that a refused case lacks are null.
Json row(const Comparison& c) {
    const bool predicted = c.forecast.has_value();
    const auto of_forecast = [&](auto value) {
        return predicted ? Json(value(*c.forecast)) : Json(nullptr);
    };
    const double error = predicted ? relative_error(c) : 0;
    return {
        {"case_id", c.what.case_id},
        {"source", c.what.source},
        {"series", c.what.series},
        {"measured_s",
         c.what.measured_step > Seconds(0) ? Json(c.what.measured_step) : Json(nullptr)},
        {"predicted_s", of_forecast([](const Forecast& f) { return f.step.p50; })},
        {"p10_s", of_forecast([](const Forecast& f) { return f.step.p10; })},
        {"p50_s", of_forecast([](const Forecast& f) { return f.step.p50; })},
        {"p90_s", of_forecast([](const Forecast& f) { return f.step.p90; })},
        {"ape", predicted ? Json(std::abs(error)) : Json(nullptr)},
        {"error", predicted ? Json(error) : Json(nullptr)},
        {"inside", predicted ? Json(inside_interval(c)) : Json(nullptr)},
        {"tokens_per_s_per_gpu",
         of_forecast([](const Forecast& f) { return f.tokens_per_second / f.gpus; })},
        {"model_tflops_per_gpu",
         of_forecast([](const Forecast& f) { return f.model_flops_per_gpu / teraflops; })},
        {"measured_forward_s", c.what.measured_forward},
        {"predicted_forward_s", of_forecast([](const Forecast& f) { return f.forward.p50; })},
        {"measured_backward_s", c.what.measured_backward},
        {"predicted_backward_s", predicted ? Json(predicted_backward(c)) : Json(nullptr)},
        {"measured_mean_s", c.what.measured_mean},
        {"predicted_mean_s", of_forecast([](const Forecast& f) { return f.step.mean; })},
        {"recorded_steps", c.what.recorded_steps.size()},
        {"recorded_inside", series_inside(c)},
        {"phases", phase_rows(c)},
        {"measured_peak_bytes", c.what.measured_peak},
        {"predicted_peak_bytes", predicted ? Json(compared_peak(c)) : Json(nullptr)},
        {"peak_is", c.what.measured_reserved ? "reserved" : "allocated"},
        {"peak_error", peak_error(c)},
        {"out_of_memory", of_forecast([](const Forecast& f) { return f.memory.out_of_memory; })},
        {"fits", of_forecast([](const Forecast& f) { return f.memory.fits; })},
        {"breakdown_s",
         of_forecast([](const Forecast& f) { return times(parts_of(f.breakdown)); })},
        {"interval_log", of_forecast([](const Forecast& f) { return doubts(f.doubts); })},
        {"cluster",
         {{"name", c.what.experiment.cluster.name},
          {"calibrated", c.what.experiment.cluster.fitted.has_value()},
          {"prior_share", of_forecast([](const Forecast& f) { return prior_share(f); })},
          {"basis", of_forecast(basis)}}},
        {"ranks", predicted ? Json(rank_count(c.what.experiment.cluster)) : Json(nullptr)},
        {"framework", c.what.experiment.framework.name},
        {"held_out", c.what.evidence ? Json(*c.what.evidence != Evidence::fitted) : Json(nullptr)},
        {"evidence", c.what.evidence ? Json(key_of(*c.what.evidence)) : Json(nullptr)},
        {"assumptions", c.what.assumptions},
        {"attribution", c.attribution ? attribution(*c.attribution) : Json(nullptr)},
        {"notes", of_forecast([](const Forecast& f) { return texts_of(f.notes); })},
        {"refused_because", predicted ? Json(nullptr) : Json(c.refused_because)}};
}

// Errors are null without predicted cases.
Json errors(const CompareSummary& s) {
    const auto figure = [&](double value) { return s.predicted > 0 ? Json(value) : Json(nullptr); };
    return {{"mape", figure(s.mape)},
            {"median_ape", figure(s.median_ape)},
            {"p90_ape", figure(s.p90_ape)},
            {"bias", figure(s.bias)},
            {"rank_correlation", s.rank_correlation},
            {"regret", s.regret},
            {"regret_worst", s.regret ? Json(s.worst_regret) : Json(nullptr)},
            {"decisions", s.decisions},
            {"best_chosen", s.best_chosen},
            {"inside_interval", figure(s.inside_interval)},
            {"with_interval", s.with_interval},
            {"worst", {{"case_id", s.worst_case}, {"error", figure(s.worst_error)}}},
            {"with_peak", s.with_peak},
            {"peak_mape", s.with_peak > 0 ? Json(s.peak_mape) : Json(nullptr)}};
}

Json errors_of(const std::vector<Comparison>& chosen) {
    const CompareSummary s = summarise(chosen);
    Json j{{"predicted", s.predicted}};
    j.update(errors(s));
    return j;
}

Json kernel_errors(const KernelSummary& s) {
    const auto figure = [&](double value) { return s.predicted > 0 ? Json(value) : Json(nullptr); };
    return {{"rows", s.rows},
            {"predicted", s.predicted},
            {"mape", figure(s.mape)},
            {"median_ape", figure(s.median_ape)},
            {"bias", figure(s.bias)},
            {"worst", figure(s.worst)},
            {"inside_interval", s.inside_interval}};
}

// For building-block tables: errors by kind, device and dtype, errors by evidence, and every row.
void add_kernels(Json& j, const KernelComparisons& kernels) {
    j["kernels"] = list(kernel_summaries(kernels), [](const KernelSummary& s) {
        Json sum{{"kind", s.kind}, {"device", s.device}, {"dtype", s.dtype}};
        sum.update(kernel_errors(s));
        return sum;
    });
    for (const Evidence one : all_evidence)
        j["kernels_by_evidence"][key_of(one)] =
            kernel_errors(kernel_summary_of(of_evidence(kernels.rows, one)));
    j["kernel_rows"] = list(kernels.rows, [](const KernelComparison& k) {
        Json row{{"kind", k.kind},
                 {"device", k.device},
                 {"dtype", k.dtype},
                 {"cluster", k.cluster},
                 {"shape", k.name},
                 {"ranks", k.ranks},
                 {"bytes", k.bytes},
                 {"flop", k.work},
                 {"measured_s", k.measured},
                 {"predicted_s", k.predicted},
                 {"error", relative_error(k)},
                 {"evidence", key_of(k.evidence)}};
        if (!k.stand_in.empty()) row.update({{"kernel", k.kernel}, {"priced_as", k.stand_in}});
        return row;
    });
    j["kernels_refused"] = list(kernels.refused, [](const KernelRefusal& r) {
        return Json{{"device", r.device}, {"rows", r.rows}, {"reason", r.reason}};
    });
}

}  // namespace

std::string to_json(const CompareSummary& s, const std::vector<Comparison>& comparisons,
                    const KernelComparisons& measured_kernels) {
    Json refused = Json::array();
    for (const Comparison& c : comparisons)
        if (!c.forecast)
            refused.push_back({{"case_id", c.what.case_id},
                               {"source", c.what.source},
                               {"reason", c.refused_because}});
    Json j{{"cases", s.cases},
           {"predicted", s.predicted},
           {"refused_count", s.refused},
           {"refused", refused}};
    j.update(errors(s));
    std::vector<Comparison> held_out;  // seen and unseen
    for (const Evidence evidence : all_evidence) {
        const std::vector<Comparison> chosen = of_evidence(comparisons, evidence);
        j[key_of(evidence)] = errors_of(chosen);
        if (evidence != Evidence::fitted) append(held_out, chosen);
    }
    j["held_out"] = errors_of(held_out);
    j["rows"] = list(comparisons, row);
    add_kernels(j, measured_kernels);
    return text_of(j);
}

std::string to_json(const TracedStep& step) {
    const auto rank = [](const TracedRank& r) {
        return Json{{"rank", r.rank},
                    {"measured_span_s", r.measured_span},
                    {"predicted_span_s", r.predicted_span},
                    {"measured_exposed_s", r.measured_exposed},
                    {"predicted_exposed_s", r.predicted_exposed}};
    };
    return text_of({{"trace", step.name},
                    {"ranks", list(step.ranks, rank)},
                    {"attribution", attribution(step.error)},
                    {"notes", step.notes}});
}

}  // namespace stepcast
