#include "sim/as_run.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/input/check_experiment.h"
#include "model/input/split_rules.h"
#include "model/step.h"
#include "sim/calibration.h"
#include "sim/costs/costs.h"
#include "sim/engine/simulate.h"

namespace stepcast {
namespace {

struct Variant {
    std::string what;
    Experiment experiment;
    std::size_t framework = 0;  // among those that it may be
    Seconds step = {};
};

Seconds step_of(const Experiment& e) {
    const TaskGraph graph = build_step(e, routing_of(e));
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    return timeline.end;
}

// The experiment with each framework that its own may be. They keep its name: nobody named them.
std::vector<Variant> by_framework(const Experiment& e) {
    std::vector<Variant> found{{e.framework.name, e}};
    if (e.workload.kind != Workload::Kind::transformer) return found;
    for (const std::string& other : e.framework.may_be) {
        Variant v{other, e};
        try {
            set_key(v.experiment, {"framework.preset", other});
            check_experiment(v.experiment);
        } catch (const ConfigError&) {
            continue;  // one that cannot run this split was not used
        }
        if (!beyond_framework(v.experiment).empty()) continue;  // nor one that does not have it
        v.experiment.framework.name = e.framework.name;
        v.framework = found.size();
        found.push_back(std::move(v));
    }
    for (Variant& v : found) v.experiment.framework.may_be.clear();
    return found;
}

int nics_of(const Cluster& c) { return c.network.nics > 0 ? c.network.nics : c.gpus_per_node; }

BytesPerSecond rate_of_node(const Cluster& c) { return nics_of(c) * c.inter.bandwidth; }

// The same with each rate of a node that users' unstated networks have shown, but no more than the
// machine has.
std::vector<Variant> by_network(std::vector<Variant> all, const Circumstances& c) {
    const bool users = c.by == RunBy::thread || c.by == RunBy::complaint;
    const Cluster cluster = all.front().experiment.cluster;  // a copy, as `all` grows
    if (!users || c.network_stated || cluster.nodes == 1) return all;
    const std::size_t frameworks = all.size();
    const NetworkPrior& seen = shipped_scatter().network;
    for (const BytesPerSecond node : {seen.rate, seen.slow}) {
        if (node == BytesPerSecond(0)) continue;
        const BytesPerSecond nic = node / nics_of(cluster);
        if (nic >= cluster.inter.bandwidth) continue;
        for (std::size_t i = 0; i < frameworks; ++i) {
            Variant v = all[i];
            v.what += (v.what.empty() ? "" : ", ") + to_string(node) + " between nodes";
            v.experiment.cluster.inter.bandwidth = nic;
            all.push_back(std::move(v));
        }
    }
    return all;
}

// Those of one software, fastest network first.
std::vector<NetworkStep> by_rate(const std::vector<Variant>& all, std::size_t framework) {
    std::vector<NetworkStep> found;
    for (const Variant& v : all)
        if (v.framework == framework) found.push_back({rate_of_node(v.experiment.cluster), v.step});
    std::ranges::sort(found, std::ranges::greater{}, &NetworkStep::of_node);
    return found.size() > 1 ? found : std::vector<NetworkStep>{};
}

}  // namespace

std::optional<BytesPerSecond> rate_explaining(const std::vector<NetworkStep>& steps,
                                              Seconds measured) {
    constexpr double decides = 0.01;
    if (steps.size() < 2 || measured < steps.front().step ||
        steps.back().step < (1 + decides) * steps.front().step)
        return std::nullopt;
    std::size_t slower = 1;
    while (slower + 1 < steps.size() && steps[slower].step < measured) ++slower;
    const NetworkStep &a = steps[slower - 1], &b = steps[slower];
    if (!(b.step > a.step)) return std::nullopt;
    const double way = (measured - a.step) / (b.step - a.step);
    const double x = 1 / a.of_node.si(), y = 1 / b.of_node.si();
    return BytesPerSecond(1 / (x + way * (y - x)));
}

bool of_others(const Circumstances& c) { return c.by != RunBy::own && c.by != RunBy::recipe; }

AsRun as_run(const Experiment& e, const Circumstances& c) {
    if (!of_others(c)) return {e, c};
    std::vector<Variant> all = by_network(by_framework(e), c);
    if (all.size() == 1) return {e, c};
    for (Variant& v : all) v.step = step_of(v.experiment);
    std::ranges::stable_sort(all, {}, &Variant::step);
    const std::size_t middle = all.size() / 2;  // of two the slower one, as surprises are
    AsRun found{all[middle].experiment, c};
    found.networks = by_rate(all, all[middle].framework);
    found.said = {fmt::format("read as {}: the median of {} readings, {} to {}", all[middle].what,
                              all.size(), to_string(all.front().step), to_string(all.back().step))};
    for (const std::size_t i : indices_of(all))
        if (i != middle) found.readings.push_back({all[i].what, all[i].step / all[middle].step});
    return found;
}

std::string class_name(const Experiment& e, const Circumstances& c) {
    const std::string& framework = e.framework.name;
    if (c.by == RunBy::recipe || framework.empty() || framework == "native" ||
        (e.framework.fitted && framework != default_framework))
        return "";
    if (c.by == RunBy::thread || c.by == RunBy::complaint) return std::string(to_string(c.by));
    if (framework == default_framework || !c.software_named) return "unnamed";
    return std::ranges::count(shipped_scatter().untuned, framework) > 0 ? "untuned" : "named";
}

std::vector<std::string> traits_of(const Experiment& e) {
    std::vector<std::string> found;
    if (e.workload.moe.experts > 0) found.emplace_back("experts");
    if (is_narrow(e.workload.dtype)) found.emplace_back("narrow");
    const std::vector<KindCalibration> kinds = calibrations_of(e.cluster);
    if (first_with(kinds, "steps", &KindCalibration::kind)->determined == 0)
        found.emplace_back("device");
    return found;
}

std::optional<ClassScatter> class_of(const ScatterTable& table, const Experiment& e,
                                     const Circumstances& c) {
    const ClassScatter* const of = first_with(table.classes, class_name(e, c), &ClassScatter::name);
    if (!of) return std::nullopt;
    ClassScatter found = *of;
    const auto widen = [&](const Scatter& by) {
        found.scatter.faster = std::hypot(found.scatter.faster, by.faster);
        found.scatter.slower = std::hypot(found.scatter.slower, by.slower);
    };
    std::vector<std::string> traits = traits_of(e);
    if (c.by == RunBy::stranger) traits.emplace_back(first_contact);
    for (const std::string& name : traits)
        if (const auto trait = first_with(table.traits, name, &ClassScatter::name))
            widen(trait->scatter);
    return found;
}

}  // namespace stepcast
