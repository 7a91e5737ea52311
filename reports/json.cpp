#include "reports/json.h"

#include "measured/medians.h"
#include "model/records/measurements.h"
#include "reports/compare.h"
#include "reports/json_parts.h"
#include "reports/lever_tables.h"

namespace stepcast {
namespace json {

Json interval(const Interval& i) {
    return {{"mean", i.mean}, {"p10", i.p10}, {"p50", i.p50}, {"p90", i.p90}};
}

Json times(const std::vector<StepPart>& parts) {
    Json all;
    for (const StepPart& part : parts) all[part.key] = part.time;
    return all;
}

Json basis(const Forecast& f) {
    return list(f.basis, [](const CostBasis& b) {
        return Json{{"kind", b.kind}, {"key", b.key}, {"measured", b.measured}, {"share", b.share}};
    });
}

Json doubts(const Doubts& d) {
    const auto reading = [](const OtherReading& r) {
        return Json{{"what", r.what}, {"step_ratio", r.step}};
    };
    return {{"constants_sigma", d.constants},
            {"hidden_sigma", d.hidden},
            {"unseen_faster", d.faster},
            {"unseen_slower", d.slower},
            {"draws_faster", d.draws_faster},
            {"draws_slower", d.draws_slower},
            {"readings", list(d.readings, reading)}};
}

Json attribution(const ErrorAttribution& a) {
    const auto kind = [](const KindError& k) {
        return Json{{"kind", k.kind},
                    {"phase", to_string(k.phase)},
                    {"predicted_s", k.predicted},
                    {"measured_s", k.measured},
                    {"effect_s", k.effect}};
    };
    return {{"predicted_s", a.predicted},
            {"replayed_s", a.replayed},
            {"measured_s", a.measured},
            {"cost_error", cost_error(a)},
            {"schedule_error", schedule_error(a)},
            {"kinds", list(a.kinds, kind)}};
}

template <class T>
static Json three(const std::array<T, 3>& values) {
    return {{"p10", values[0]}, {"p50", values[1]}, {"p90", values[2]}};
}

Json campaign(const Campaign& c) {
    return {{"tokens", c.tokens},
            {"steps", c.steps},
            {"time_s", three(c.time)},
            {"money", c.money[1] > 0 ? three(c.money) : Json(nullptr)},
            {"energy_j", c.energy[1] > Joules(0) ? three(c.energy) : Json(nullptr)},
            {"currency", c.currency},
            {"price_per_gpu_hour", c.offer.price_per_gpu_hour},
            {"price_source", c.offer.price_source},
            {"power_source", c.offer.power_source},
            {"goodput",
             {{"share", c.goodput.share},
              {"failure_every_s", c.goodput.failure_every},
              {"checkpoint_every_s", c.goodput.checkpoint_every}}}};
}

std::string text_of(const Json& j) {
    return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace json

namespace {

using namespace json;

Json memory(const MemoryUse& m) {
    return {{"peak", m.peak},
            {"weights", m.weights},
            {"gradients", m.gradients},
            {"optimizer", m.optimizer},
            {"activations", m.activations},
            {"buffers", m.buffers},
            {"overheads", m.overheads},
            {"reserved", m.reserved > Bytes(0) ? Json(m.reserved) : Json(nullptr)},
            {"capacity", m.capacity > Bytes(0) ? Json(m.capacity) : Json(nullptr)}};
}

Json moment(const TensorMoment& m) {
    const auto known = [](int number) { return number < 0 ? Json(nullptr) : Json(number); };
    return {{"operator", m.what},
            {"phase", m.step < 0 ? Json(nullptr) : Json(to_string(m.phase))},
            {"step", known(m.step)},
            {"micro_batch", known(m.micro_batch)},
            {"layer", known(m.layer)}};
}

Json allocator_of(const AllocatorForecast& f) {
    Json kinds = Json::object(), process = Json::object(), layers = Json::array(),
         stages = Json::array(), remedies = Json::array(), over_time = Json::array();
    for (const auto& [what, bytes] : f.process) process[what] = bytes;
    for (const auto& [kind, bytes] : f.kinds) kinds[std::string(to_string(kind))] = bytes;
    for (const auto& l : f.layers)
        layers.push_back({{"layer", l.layer < 0 ? Json(nullptr) : Json(l.layer)},
                          {"lasting", l.lasting},
                          {"activations", l.activations},
                          {"work", l.work}});
    for (const auto& [allocated, reserved] : f.stages)
        stages.push_back({{"allocated", allocated}, {"reserved", reserved}});
    for (const auto& r : f.remedies)
        remedies.push_back(
            {{"key", r.key}, {"value", r.value}, {"reserved", r.reserved}, {"fits", r.fits}});
    for (const auto& [allocated, reserved] : f.over_time)
        over_time.push_back({allocated, reserved});
    Json failure;
    if (f.failure)
        failure = {{"moment", moment(f.failure->moment)},
                   {"asked", f.failure->asked},
                   {"allocated", f.failure->allocated},
                   {"reserved", f.failure->reserved}};
    return {{"stage", f.stage},
            {"allocated", f.allocated},
            {"reserved", f.reserved},
            {"fragmentation", f.reserved / f.allocated - 1},
            {"capacity", f.capacity > Bytes(0) ? Json(f.capacity) : Json(nullptr)},
            {"context", f.context},
            {"process", process},
            {"fits", !f.failure},
            {"hangs_on_driver", f.hangs_on_driver},
            {"retries", f.retries},
            {"failure", failure},
            {"remedies", remedies},
            {"fullest", moment(f.fullest)},
            {"kinds", kinds},
            {"layers", layers},
            {"stages", stages},
            {"over_time", over_time}};
}

Json kernels(const std::vector<KernelTime>& times) {
    Json by_name = Json::object();
    for (const KernelTime& k : times)
        by_name[k.name].push_back(
            {{"rank", k.rank}, {"phase", to_string(k.phase)}, {"time_s", k.time}});
    return by_name;
}

Json idle_time(const IdleTime& i) {
    return {{"rank", i.rank},
            {"stands_for", i.stands_for},
            {"busy_s", i.busy},
            {"bubble_s", i.bubble},
            {"straggler_s", i.straggler},
            {"exposed_communication_s", i.exposed_communication},
            {"host_s", i.host}};
}

Json explained(const Explanation& x) {
    Json by_link{{"node", 0.0}, {"leaf", 0.0}, {"spine", 0.0}};
    Seconds host;
    for (const PathShare& s : x.path) {
        if (s.on_host) host += s.time;
        if (s.link != LinkLevel::none)
            by_link[to_string(s.link)] = by_link[to_string(s.link)].get<double>() + s.time.si();
    }
    const auto path = [](const PathShare& s) {
        return Json{
            {"kind", s.kind}, {"link", to_string(s.link)}, {"time_s", s.time}, {"tasks", s.tasks}};
    };
    const auto effect = [](const Elasticity& e) {
        return Json{{"key", e.key},
                    {"value", e.value},
                    {"step_change_s", e.simulated},
                    {"along_path_s", e.along_path}};
    };
    const auto uncertain = [](const Uncertainty& u) {
        return Json{{"key", u.key},
                    {"value", u.value},
                    {"known_from", to_string(u.source)},
                    {"relative_error", u.relative_error},
                    {"step_s", u.widening},
                    {"share_of_variance", u.share}};
    };
    return {{"step_s", x.step},
            {"critical_path", list(x.path, path)},
            {"critical_path_by_link_s", by_link},
            {"critical_path_host_s", host},
            {"idle", {{"slowest", idle_time(x.slowest)}, {"median", idle_time(x.median)}}},
            {"elasticity",
             {{"more", x.change},
              {"parameters", list(x.elasticities, effect)},
              {"without_effect", x.without_effect}}},
            {"measure_next", list(x.uncertainties, uncertain)},
            {"uncertainty_s", x.uncertainty}};
}

Json sampled(const std::vector<double>& values) {
    if (values.empty()) return nullptr;
    return {{"mean", mean(values)},
            {"p10", quantile(values, 0.1)},
            {"p50", quantile(values, 0.5)},
            {"p90", quantile(values, 0.9)},
            {"median", median(values)}};
}

Json sample(const MeasuredStep& step) {
    const StepTimes& t = step.times;
    return {{"step_s", t.step},           {"forward_s", t.forward},
            {"backward_s", t.backward},   {"gradient_sync_s", t.gradient_sync},
            {"optimizer_s", t.optimizer}, {"accepted", step.accepted},
            {"cpu_share", step.cpu_share}};
}

// Whether the cluster has a fit, and how much of this step depends on it.
Json levers_of(const std::vector<Lever>& levers) {
    Json all = Json::array();
    for (const Lever& one : levers) {
        Json set = Json::object();
        for (const auto& [key, value] : one.set) set[key] = value;
        all.push_back({{"set", set},
                       {"from", one.from},
                       {"hardware", one.hardware},
                       {"step_s", interval(one.step)},
                       {"against_now",
                        {{"p10", one.against.p10},
                         {"p50", one.against.p50},
                         {"p90", one.against.p90},
                         {"distinguishable", one.against.distinguishable}}},
                       {"memory_bytes", one.memory.si()},
                       {"fits", one.fits},
                       {"framework_cannot", one.cannot},
                       {"flag", one.flag}});
    }
    return all;
}

Json cluster_of(const Forecast& f) {
    return {{"name", f.cluster},
            {"calibrated", f.calibrated},
            {"prior_share", f.basis.empty() ? Json(nullptr) : Json(prior_share(f))},
            {"basis", basis(f)}};
}

Json unequal(const UnequalStages& u) {
    Json j{{"stage", u.stage},
           {"stages", u.stages},
           {"over_median", u.over_median},
           {"lost_s", u.lost},
           {"logits", u.logits}};
    if (!u.layout.empty())
        j["lever"] = {{"layout", u.layout}, {"stage_layers", u.layers}, {"step_s", u.step}};
    return j;
}

}  // namespace

std::string to_json(const Forecast& f, const std::optional<Explanation>& explanation,
                    const std::optional<Campaign>& training,
                    const std::optional<AllocatorForecast>& allocator,
                    const std::optional<std::vector<Lever>>& levers) {
    Json j{{"experiment", f.experiment},
           {"cluster", cluster_of(f)},
           {"framework", f.framework},
           {"split", f.split},
           {"step_s", interval(f.step)},
           {"phases_s", times(phases_of(f.phases))},
           {"breakdown_s", times(parts_of(f.breakdown))},
           {"memory_bytes", memory(f.memory)},
           {"fits", f.memory.fits},
           {"out_of_memory", f.memory.out_of_memory},
           {"tokens_per_s", f.tokens_per_second},
           {"tokens_per_s_per_gpu", f.tokens_per_second / f.gpus},
           {"model_flops_utilization", f.model_flops_utilization},
           {"model_tflops_per_gpu", f.model_flops_per_gpu / teraflops},
           {"masked_flops_utilization", f.masked_flops_utilization},
           {"causal_mask_counted", false},
           {"interval_log", doubts(f.doubts)},
           {"energy_j", f.energy > Joules(0) ? Json(f.energy.si()) : Json(nullptr)},
           {"energy_j_per_token",
            f.energy > Joules(0) ? Json(f.energy.si() / (f.tokens_per_second * f.step.p50.si()))
                                 : Json(nullptr)},
           {"tasks", f.tasks},
           {"ranks_simulated", f.ranks_simulated},
           {"draws", f.draws},
           {"forward_s", interval(f.forward)},
           {"backward_s", interval(f.backward)},
           {"gradient_sync_s", interval(f.gradient_sync)},
           {"optimizer_s", interval(f.optimizer)},
           {"kernels_s", kernels(f.kernels)},
           {"notes", texts_of(f.notes)}};
    if (f.drawn)
        j["drawn_experts"] = {
            {"step_over_balanced", f.drawn->step > 0 ? Json(f.drawn->step) : Json(nullptr)},
            {"memory_bytes", f.drawn->memory},
            {"stops_fitting", f.drawn->stops.empty() ? Json(nullptr) : Json(f.drawn->stops)}};
    if (f.unequal) j["unequal_stages"] = unequal(*f.unequal);
    if (explanation) j["explain"] = explained(*explanation);
    if (training) j["training"] = campaign(*training);
    if (allocator) j["allocator_bytes"] = allocator_of(*allocator);
    if (levers) j["levers"] = levers_of(*levers);
    return text_of(j);
}

std::string to_json(const std::string& experiment, const Measurement& m) {
    std::vector<double> accepted, all;
    for (const MeasuredStep& step : m.steps) {
        all.push_back(step.times.step.si());
        if (step.accepted) accepted.push_back(step.times.step.si());
    }
    const Json j{{"experiment", experiment},
                 {"device", m.device},
                 {"date", m.date},
                 {"versions", m.versions},
                 {"kernels", m.kernels},
                 {"step_s", sampled(accepted.empty() ? all : accepted)},
                 {"phases_s", m.steps.empty() ? Json(nullptr) : times(phases_of(median_times(m)))},
                 {"steps", m.steps.size()},
                 {"accepted", accepted.size()},
                 {"warmup", m.warmup},
                 {"quiet", m.quiet},
                 {"idle_share", m.idle_share},
                 {"warnings", m.warnings},
                 {"samples", list(m.steps, sample)}};
    return text_of(j);
}

std::string columns_json(const std::vector<ForecastColumn>& columns) {
    return text_of(list(columns, [](const ForecastColumn& c) {
        Json one{{"label", c.label}};
        one.update(Json::parse(to_json(c.forecast, std::nullopt, c.campaign)));
        return one;
    }));
}

}  // namespace stepcast
