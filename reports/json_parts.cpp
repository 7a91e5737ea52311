#include "reports/json_parts.h"

namespace stepcast::json {

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

namespace {

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

}  // namespace

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

std::string text_of(const Json& j) { return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace stepcast::json
