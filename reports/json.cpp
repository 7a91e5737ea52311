#include "reports/json.h"

#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "model/records/measurements.h"
#include "reports/columns_table.h"

namespace stepcast {
namespace {

using namespace literals;

using Json = nlohmann::ordered_json;

// JSON has no infinity: what is not finite is null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <int S, int B, int F>
Json number(Quantity<S, B, F> value) {
    return number(value.si());
}

Json interval(const Interval& i) {
    return {{"mean", number(i.mean)}, {"p10", number(i.p10)}, {"p50", number(i.p50)}, {"p90", number(i.p90)}};
}

Json phases(const StepTimes& t) {
    return {{"forward", number(t.forward)},
            {"backward", number(t.backward)},
            {"gradient_sync", number(t.gradient_sync)},
            {"optimizer", number(t.optimizer)}};
}

Json breakdown(const Breakdown& b) {
    return {{"compute", number(b.compute)},
            {"memory", number(b.memory)},
            {"exposed_communication", number(b.exposed_communication)},
            {"bubble", number(b.bubble)},
            {"imbalance", number(b.imbalance)},
            {"host", number(b.host)}};
}

Json memory(const MemoryUse& m) {
    return {{"peak", number(m.peak)},
            {"weights", number(m.weights)},
            {"gradients", number(m.gradients)},
            {"optimizer", number(m.optimizer)},
            {"activations", number(m.activations)},
            {"buffers", number(m.buffers)},
            {"overheads", number(m.overheads)},
            {"capacity", m.capacity > Bytes(0) ? number(m.capacity) : Json(nullptr)}};
}

Json kernels(const std::vector<KernelTime>& times) {
    Json by_name = Json::object();
    for (const KernelTime& k : times)
        by_name[k.name].push_back({{"rank", k.rank}, {"phase", to_string(k.phase)}, {"time_s", number(k.time)}});
    return by_name;
}

Json idle_time(const IdleTime& i) {
    return {{"rank", i.rank},
            {"stands_for", i.stands_for},
            {"busy_s", number(i.busy)},
            {"bubble_s", number(i.bubble)},
            {"straggler_s", number(i.straggler)},
            {"exposed_communication_s", number(i.exposed_communication)},
            {"host_s", number(i.host)}};
}

Json explained(const Explanation& x) {
    Json path = Json::array(), effects = Json::array(), uncertain = Json::array();
    Json by_link{{"node", 0.0}, {"leaf", 0.0}, {"spine", 0.0}};
    Seconds host;
    for (const PathShare& s : x.path) {
        path.push_back({{"kind", s.kind}, {"link", to_string(s.link)}, {"time_s", number(s.time)}, {"tasks", s.tasks}});
        if (s.on_host) host += s.time;
        if (s.link != LinkLevel::none)
            by_link[to_string(s.link)] = by_link[to_string(s.link)].get<double>() + s.time.si();
    }
    for (const Elasticity& e : x.elasticities)
        effects.push_back({{"key", e.key},
                           {"value", e.value},
                           {"step_change_s", number(e.simulated)},
                           {"along_path_s", number(e.along_path)}});
    for (const Uncertainty& u : x.uncertainties)
        uncertain.push_back({{"key", u.key},
                             {"value", u.value},
                             {"known_from", to_string(u.source)},
                             {"relative_error", number(u.relative_error)},
                             {"step_s", number(u.widening)},
                             {"share_of_variance", number(u.share)}});
    return {{"step_s", number(x.step)},
            {"critical_path", path},
            {"critical_path_by_link_s", by_link},
            {"critical_path_host_s", number(host)},
            {"idle", {{"slowest", idle_time(x.slowest)}, {"median", idle_time(x.median)}}},
            {"elasticity", {{"more", number(x.change)}, {"parameters", effects}, {"without_effect", x.without_effect}}},
            {"measure_next", uncertain},
            {"uncertainty_s", number(x.uncertainty)}};
}

template <class Value>
Json optional_number(const std::optional<Value>& value) {
    return value ? number(*value) : Json(nullptr);
}

Json phase_rows(const Comparison& c) {
    Json rows = Json::array();
    for (const PhaseComparison& p : phase_comparisons(c))
        rows.push_back({{"phase", p.name},
                        {"rank", p.rank},
                        {"measured_s", number(p.measured)},
                        {"predicted_s", number(p.predicted)},
                        {"error", p.measured > Seconds(0) ? number(p.predicted / p.measured - 1) : Json(nullptr)}});
    return rows;
}

Json attribution(const ErrorAttribution& a) {
    Json kinds = Json::array();
    for (const KindError& k : a.kinds)
        kinds.push_back({{"kind", k.kind},
                         {"phase", to_string(k.phase)},
                         {"predicted_s", number(k.predicted)},
                         {"measured_s", number(k.measured)},
                         {"effect_s", number(k.effect)}});
    return {{"predicted_s", number(a.predicted)},
            {"replayed_s", number(a.replayed)},
            {"measured_s", number(a.measured)},
            {"cost_error", number(cost_error(a))},
            {"schedule_error", number(schedule_error(a))},
            {"kinds", kinds}};
}

const char* key_of(Evidence evidence) {
    return evidence == Evidence::fitted ? "fitted" : evidence == Evidence::seen ? "seen" : "unseen";
}

// Which constants price the step's critical path.
Json basis(const Forecast& f) {
    Json shares = Json::array();
    for (const CostBasis& b : f.basis)
        shares.push_back({{"kind", b.kind}, {"key", b.key}, {"measured", b.measured}, {"share", number(b.share)}});
    return shares;
}

Json doubts(const Doubts& d) {
    Json readings = Json::array();
    for (const OtherReading& r : d.readings) readings.push_back({{"what", r.what}, {"step_ratio", number(r.step)}});
    return {{"constants_sigma", number(d.constants)},
            {"unseen_faster", number(d.faster)},
            {"unseen_slower", number(d.slower)},
            {"draws_faster", number(d.draws_faster)},
            {"draws_slower", number(d.draws_slower)},
            {"readings", readings}};
}

// Every row has the same keys; what a refused case lacks is null.
Json row(const Comparison& c) {
    const bool predicted = c.forecast.has_value();
    const auto of_forecast = [&](auto value) { return predicted ? Json(value(*c.forecast)) : Json(nullptr); };
    const double error = predicted ? relative_error(c) : 0;
    return {
        {"case_id", c.what.case_id},
        {"source", c.what.source},
        {"series", c.what.series},
        {"measured_s", c.what.measured_step > Seconds(0) ? number(c.what.measured_step) : Json(nullptr)},
        {"predicted_s", of_forecast([](const Forecast& f) { return number(f.step.p50); })},
        {"p10_s", of_forecast([](const Forecast& f) { return number(f.step.p10); })},
        {"p50_s", of_forecast([](const Forecast& f) { return number(f.step.p50); })},
        {"p90_s", of_forecast([](const Forecast& f) { return number(f.step.p90); })},
        {"ape", predicted ? number(std::abs(error)) : Json(nullptr)},
        {"error", predicted ? number(error) : Json(nullptr)},
        {"inside", predicted ? Json(inside_interval(c)) : Json(nullptr)},
        {"tokens_per_s_per_gpu", of_forecast([](const Forecast& f) { return number(f.tokens_per_second / f.gpus); })},
        {"model_tflops_per_gpu",
         of_forecast([](const Forecast& f) { return number(f.model_flops_per_gpu / 1_TFLOPps); })},
        {"measured_forward_s", optional_number(c.what.measured_forward)},
        {"predicted_forward_s", of_forecast([](const Forecast& f) { return number(f.forward.p50); })},
        {"measured_backward_s", optional_number(c.what.measured_backward)},
        {"predicted_backward_s", predicted ? number(predicted_backward(c)) : Json(nullptr)},
        {"measured_mean_s", optional_number(c.what.measured_mean)},
        {"predicted_mean_s", of_forecast([](const Forecast& f) { return number(f.step.mean); })},
        {"recorded_steps", c.what.recorded_steps.size()},
        {"recorded_inside", optional_number(series_inside(c))},
        {"phases", phase_rows(c)},
        {"measured_peak_bytes", optional_number(c.what.measured_peak)},
        {"predicted_peak_bytes", of_forecast([](const Forecast& f) { return number(f.memory.peak); })},
        {"peak_error", optional_number(peak_error(c))},
        {"fits", of_forecast([](const Forecast& f) { return f.memory.fits; })},
        {"breakdown_s", of_forecast([](const Forecast& f) { return breakdown(f.breakdown); })},
        {"interval_log", of_forecast([](const Forecast& f) { return doubts(f.doubts); })},
        {"cluster",
         {{"name", c.what.experiment.cluster.name},
          {"calibrated", c.what.experiment.cluster.fitted.has_value()},
          {"prior_share", of_forecast([](const Forecast& f) { return number(prior_share(f)); })},
          {"basis", of_forecast(basis)}}},
        {"ranks", predicted ? Json(rank_count(c.what.experiment.cluster)) : Json(nullptr)},
        {"framework", c.what.experiment.framework.name},
        {"held_out", c.what.evidence ? Json(*c.what.evidence != Evidence::fitted) : Json(nullptr)},
        {"evidence", c.what.evidence ? Json(key_of(*c.what.evidence)) : Json(nullptr)},
        {"assumptions", c.what.assumptions},
        {"attribution", c.attribution ? attribution(*c.attribution) : Json(nullptr)},
        {"notes", of_forecast([](const Forecast& f) { return f.notes; })},
        {"refused_because", predicted ? Json(nullptr) : Json(c.refused_because)}};
}

// Without predicted cases there are no errors: null.
Json errors(const CompareSummary& s) {
    const auto figure = [&](double value) { return s.predicted > 0 ? number(value) : Json(nullptr); };
    return {{"mape", figure(s.mape)},
            {"median_ape", figure(s.median_ape)},
            {"p90_ape", figure(s.p90_ape)},
            {"bias", figure(s.bias)},
            {"rank_correlation", s.rank_correlation ? number(*s.rank_correlation) : Json(nullptr)},
            {"regret", optional_number(s.regret)},
            {"regret_worst", s.regret ? number(s.worst_regret) : Json(nullptr)},
            {"decisions", s.decisions},
            {"best_chosen", s.best_chosen},
            {"inside_interval", figure(s.inside_interval)},
            {"with_interval", s.with_interval},
            {"worst", {{"case_id", s.worst_case}, {"error", figure(s.worst_error)}}},
            {"with_peak", s.with_peak},
            {"peak_mape", s.with_peak > 0 ? number(s.peak_mape) : Json(nullptr)}};
}

Json errors_of(const std::vector<Comparison>& chosen) {
    const CompareSummary s = summarise(chosen);
    Json j{{"predicted", s.predicted}};
    j.update(errors(s));
    return j;
}

Json kernel_errors(const KernelSummary& s) {
    const auto figure = [&](double value) { return s.predicted > 0 ? number(value) : Json(nullptr); };
    return {{"rows", s.rows},
            {"predicted", s.predicted},
            {"mape", figure(s.mape)},
            {"median_ape", figure(s.median_ape)},
            {"bias", figure(s.bias)},
            {"worst", figure(s.worst)},
            {"inside_interval", optional_number(s.inside_interval)}};
}

// Of building-block tables: errors by kind, device and dtype, by what the rows show, and every row.
void add_kernels(Json& j, const KernelComparisons& kernels) {
    Json sums = Json::array(), rows = Json::array(), refused = Json::array(), evidence = Json::object();
    for (const KernelSummary& s : kernel_summaries(kernels)) {
        sums.push_back({{"kind", s.kind}, {"device", s.device}, {"dtype", s.dtype}});
        sums.back().update(kernel_errors(s));
    }
    for (const Evidence one : all_evidence) {
        std::vector<KernelComparison> chosen;
        for (const KernelComparison& k : kernels.rows)
            if (k.evidence == one) chosen.push_back(k);
        evidence[key_of(one)] = kernel_errors(kernel_summary_of(chosen));
    }
    for (const KernelComparison& k : kernels.rows)
        rows.push_back({{"kind", k.kind},
                        {"device", k.device},
                        {"dtype", k.dtype},
                        {"cluster", k.cluster},
                        {"shape", k.name},
                        {"ranks", k.ranks},
                        {"bytes", number(k.bytes)},
                        {"flop", number(k.work)},
                        {"measured_s", number(k.measured)},
                        {"predicted_s", number(k.predicted)},
                        {"error", number(relative_error(k))},
                        {"evidence", key_of(k.evidence)}});
    for (const KernelRefusal& r : kernels.refused)
        refused.push_back({{"device", r.device}, {"rows", r.rows}, {"reason", r.reason}});
    j["kernels"] = sums;
    j["kernels_by_evidence"] = evidence;
    j["kernel_rows"] = rows;
    j["kernels_refused"] = refused;
}

Json sampled(const std::vector<double>& values) {
    if (values.empty()) return nullptr;
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    return {{"mean", number(mean)},
            {"p10", number(quantile(values, 0.1))},
            {"p50", number(quantile(values, 0.5))},
            {"p90", number(quantile(values, 0.9))},
            {"median", number(median(values))}};
}

Json sample(const MeasuredStep& step) {
    const StepTimes& t = step.times;
    return {{"step_s", number(t.step)},           {"forward_s", number(t.forward)},
            {"backward_s", number(t.backward)},   {"gradient_sync_s", number(t.gradient_sync)},
            {"optimizer_s", number(t.optimizer)}, {"accepted", step.accepted},
            {"cpu_share", number(step.cpu_share)}};
}

// Whether the cluster has a fit, and how much of this step rests on it.
Json cluster_of(const Forecast& f) {
    return {{"name", f.cluster},
            {"calibrated", f.calibrated},
            {"prior_share", f.basis.empty() ? Json(nullptr) : number(prior_share(f))},
            {"basis", basis(f)}};
}

template <class T>
Json three(const std::array<T, 3>& values) {
    const auto si = [](const T& value) {
        if constexpr (std::is_same_v<T, double>)
            return number(value);
        else
            return number(value.si());
    };
    return {{"p10", si(values[0])}, {"p50", si(values[1])}, {"p90", si(values[2])}};
}

Json campaign(const Campaign& c) {
    return {{"tokens", number(c.tokens)},
            {"steps", number(c.steps)},
            {"time_s", three(c.time)},
            {"money", c.money[1] > 0 ? three(c.money) : Json(nullptr)},
            {"energy_j", c.energy[1] > Joules(0) ? three(c.energy) : Json(nullptr)},
            {"currency", c.currency},
            {"price_per_gpu_hour", number(c.offer.price_per_gpu_hour)},
            {"price_source", c.offer.price_source},
            {"power_source", c.offer.power_source},
            {"goodput",
             {{"share", number(c.goodput.share)},
              {"failure_every_s", number(c.goodput.failure_every)},
              {"checkpoint_every_s", number(c.goodput.checkpoint_every)}}}};
}

// A name from a log may hold bytes that are no UTF-8; they are replaced rather than fatal.
std::string text_of(const Json& j) { return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string to_json(const Forecast& f, const std::optional<Explanation>& explanation,
                    const std::optional<Campaign>& training) {
    Json j{{"experiment", f.experiment},
           {"cluster", cluster_of(f)},
           {"framework", f.framework},
           {"step_s", interval(f.step)},
           {"phases_s", phases(f.phases)},
           {"breakdown_s", breakdown(f.breakdown)},
           {"memory_bytes", memory(f.memory)},
           {"fits", f.memory.fits},
           {"tokens_per_s", number(f.tokens_per_second)},
           {"tokens_per_s_per_gpu", number(f.tokens_per_second / f.gpus)},
           {"model_flops_utilization", number(f.model_flops_utilization)},
           {"model_tflops_per_gpu", number(f.model_flops_per_gpu / 1_TFLOPps)},
           {"causal_mask_counted", false},
           {"interval_log", doubts(f.doubts)},
           {"energy_j", f.energy > Joules(0) ? number(f.energy.si()) : Json(nullptr)},
           {"energy_j_per_token", f.energy > Joules(0) ? number(f.energy.si() / (f.tokens_per_second * f.step.p50.si())) : Json(nullptr)},
           {"tasks", f.tasks},
           {"ranks_simulated", f.ranks_simulated},
           {"draws", f.draws},
           {"forward_s", interval(f.forward)},
           {"backward_s", interval(f.backward)},
           {"gradient_sync_s", interval(f.gradient_sync)},
           {"optimizer_s", interval(f.optimizer)},
           {"kernels_s", kernels(f.kernels)},
           {"notes", f.notes}};
    if (explanation) j["explain"] = explained(*explanation);
    if (training) j["training"] = campaign(*training);
    return text_of(j);
}

std::string to_json(const CompareSummary& s, const std::vector<Comparison>& comparisons,
                    const KernelComparisons& measured_kernels) {
    Json refused = Json::array(), rows = Json::array();
    for (const Comparison& c : comparisons) {
        rows.push_back(row(c));
        if (!c.forecast)
            refused.push_back({{"case_id", c.what.case_id}, {"source", c.what.source}, {"reason", c.refused_because}});
    }
    Json j{{"cases", s.cases}, {"predicted", s.predicted}, {"refused_count", s.refused}, {"refused", refused}};
    j.update(errors(s));
    std::vector<Comparison> held_out;  // seen or not
    for (const Evidence evidence : all_evidence) {
        const std::vector<Comparison> chosen = of_evidence(comparisons, evidence);
        j[key_of(evidence)] = errors_of(chosen);
        if (evidence != Evidence::fitted) held_out.insert(held_out.end(), chosen.begin(), chosen.end());
    }
    j["held_out"] = errors_of(held_out);
    j["rows"] = rows;
    add_kernels(j, measured_kernels);
    return text_of(j);
}

std::string to_json(const TracedStep& step) {
    Json ranks = Json::array();
    for (const TracedRank& r : step.ranks)
        ranks.push_back({{"rank", r.rank},
                         {"measured_span_s", number(r.measured_span)},
                         {"predicted_span_s", number(r.predicted_span)},
                         {"measured_exposed_s", number(r.measured_exposed)},
                         {"predicted_exposed_s", number(r.predicted_exposed)}});
    const Json j{{"trace", step.name}, {"ranks", ranks}, {"attribution", attribution(step.error)}, {"notes", step.notes}};
    return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_json(const std::string& experiment, const Measurement& m) {
    std::vector<double> accepted, all;
    Json samples = Json::array();
    for (const MeasuredStep& step : m.steps) {
        all.push_back(step.times.step.si());
        if (step.accepted) accepted.push_back(step.times.step.si());
        samples.push_back(sample(step));
    }
    const Json j{{"experiment", experiment},
                 {"device", m.device},
                 {"date", m.date},
                 {"versions", m.versions},
                 {"step_s", sampled(accepted.empty() ? all : accepted)},
                 {"phases_s", m.steps.empty() ? Json(nullptr) : phases(median_times(m))},
                 {"steps", m.steps.size()},
                 {"accepted", accepted.size()},
                 {"warmup", m.warmup},
                 {"quiet", m.quiet},
                 {"idle_share", number(m.idle_share)},
                 {"warnings", m.warnings},
                 {"samples", samples}};
    return text_of(j);
}

namespace {

Json sweep_row(const SweepRow& row) {
    Json settings = Json::object();
    for (const auto& [key, value] : row.settings) settings[key] = value;
    Json json{{"settings", settings},
            {"step_s", number(row.step)},
            {"lower_bound_s", number(row.lower)},
            {"estimate_s", row.estimate > Seconds(0) ? number(row.estimate) : Json(nullptr)},
            {"interval_s", interval(row.forecast.step)},
            {"tokens_per_s", number(row.tokens_per_second)},
            {"tokens_per_s_per_gpu", number(row.tokens_per_second / row.ranks)},
            {"model_flops_utilization", number(row.forecast.model_flops_utilization)},
            {"model_tflops_per_gpu", number(row.forecast.model_flops_per_gpu / 1_TFLOPps)},
            {"peak_bytes", number(row.peak)},
            {"cost_per_token", row.cost_per_token > 0 ? number(row.cost_per_token) : Json(nullptr)},
            {"ranks", row.ranks}};
    if (row.campaign) json["training"] = campaign(*row.campaign);
    if (row.least_within) json["least_within"] = true;
    if (row.behind)
        json["behind_first"] = {{"p10", number(row.behind->p10)},
                                {"p50", number(row.behind->p50)},
                                {"p90", number(row.behind->p90)},
                                {"distinguishable", row.behind->distinguishable}};
    return json;
}

Json sweep_rows(const std::vector<SweepRow>& rows) {
    Json all = Json::array();
    for (const SweepRow& row : rows) all.push_back(sweep_row(row));
    return all;
}

Json sweep_counts(const SweepCounts& c) {
    Json illegal = Json::object(), infeasible = Json::object();
    for (const auto& [reason, points] : c.illegal) illegal[reason] = points;
    for (const auto& [reason, points] : c.infeasible) infeasible[reason] = points;
    return {{"points", c.points},       {"legal", c.legal}, {"feasible", c.feasible}, {"bounded_away", c.bounded_away},
            {"simulated", c.simulated}, {"twins", c.twins}, {"illegal", illegal},     {"infeasible", infeasible}};
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
              {"varied", r.varied},
              {"where", r.where},
              {r.second ? "front" : "top", sweep_rows(r.best)},
              {"scaling", sweep_rows(r.scaling)},
              {"each_of", r.each_of},
              {"of_each", sweep_rows(r.of_each)},
              {"counts", sweep_counts(r.counts)},
              {"proven", r.broken_bounds == 0},
              {"proof", proof_text(r)}};
    return text_of(json);
}

std::string columns_json(const std::vector<ForecastColumn>& columns) {
    Json list = Json::array();
    for (const ForecastColumn& c : columns) {
        Json one{{"label", c.label}};
        one.update(Json::parse(to_json(c.forecast, std::nullopt, c.campaign)));
        list.push_back(std::move(one));
    }
    return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepcast
