// The time of a training step as a function of its constants, with derivatives.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "calibrate/step_model.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/runtime_rules.h"
#include "model/step.h"
#include "sim/explain/cluster_parameters.h"
#include "sim/explain/elasticity.h"
#include "sim/on_threads.h"

namespace stepcast {
namespace {

constexpr double nudge = 0.05;  // of a logarithm

bool in_graph(const std::string& key) { return key == eager_traffic_key; }

Experiment at_factors(const Experiment& base, const std::vector<std::string>& keys,
                      const std::vector<double>& factors) {
    Experiment e = base;
    // the record of the fit has no influence on times and is long to copy
    e.cluster.fitted.reset();
    for (const std::size_t j : indices_of(keys)) {
        if (in_graph(keys[j]))
            e.runtime.eager_traffic *= factors[j];
        else
            e.cluster = with_scaled(e.cluster, keys[j], factors[j]);
    }
    return e;
}

// Its slopes are those of the step itself, in seconds.
StepSlopes of_whole(const Experiment& e, const std::vector<std::string>& keys) {
    const TaskGraph graph = build_step(e, routing_of(e));
    const WhatIf step(graph, e.cluster);
    StepSlopes found{step.timeline().end, {}};
    for (const std::string& key : keys) {
        Seconds more;
        if (!in_graph(key)) {
            more = step.along_path(with_scaled(e.cluster, key, std::exp(nudge)));
        } else if (is_eager(e)) {
            Experiment other = e;
            other.runtime.eager_traffic *= std::exp(nudge);
            more = step.along_path(build_step(other, routing_of(other)));
        }
        found.slopes.push_back(more.si() / nudge);
    }
    return found;
}

Experiment with_micro_batches(Experiment e, int count) {
    e.parallelism.global_batch = count * e.parallelism.dp * e.parallelism.micro_batch;
    return e;
}

// How many micro-batches the step has, and the two shorter steps from which it is extrapolated.
struct Batches {
    int count, few, more;
};
Batches batches_of(const Parallelism& p) {
    const int few = p.pp == 1 ? 3 : 2 * p.pp;
    return {micro_batches(p), few, few + std::max(2, p.pp)};
}

// Whether the step is extrapolated: it has more micro-batches than the two shorter ones.
bool goes_on_from_few(const Experiment& e) {
    const Batches b = batches_of(e.parallelism);
    return e.workload.kind == Workload::Kind::transformer && e.parallelism.global_batch > 0 &&
           b.count > b.more;
}

std::vector<std::string> keys_of(const std::vector<StepConstant>& constants) {
    std::vector<std::string> keys;
    for (const StepConstant& c : constants) keys.push_back(c.key);
    return keys;
}

std::vector<double> factors_at(const Vector& x) {
    std::vector<double> factors;
    for (const double value : x) factors.push_back(std::exp(value));
    return factors;
}

}  // namespace

StepSlopes step_with_slopes(const Case& what, const std::vector<std::string>& keys,
                            const std::vector<double>& factors, bool whole) {
    const Experiment e = at_factors(what.experiment, keys, factors);
    const Batches b = batches_of(e.parallelism);
    const bool from_few = !whole && goes_on_from_few(e);
    StepSlopes found = of_whole(from_few ? with_micro_batches(e, b.more) : e, keys);
    if (from_few) {
        const StepSlopes first = of_whole(with_micro_batches(e, b.few), keys);
        const double along = real(b.count - b.more) / (b.more - b.few);
        found.step += along * (found.step - first.step);
        for (const std::size_t j : indices_of(keys))
            found.slopes[j] += along * (found.slopes[j] - first.slopes[j]);
    }
    for (double& slope : found.slopes) slope /= found.step.si();
    return found;
}

RowModel step_rows_model(const std::vector<Case>& cases, const std::vector<StepConstant>& constants,
                         const Progress& progress, const std::vector<bool>& whole) {
    const std::vector<std::string> keys = keys_of(constants);
    return [&cases, keys, progress, whole, pass = 0](const Vector& x,
                                                     const std::vector<bool>& rows) mutable {
        ++pass;
        const std::vector<double> factors = factors_at(x);
        RowErrors found{Vector(cases.size()),
                        {cases.size(), keys.size(), Vector(cases.size() * keys.size())}};
        std::mutex printing;
        each_on_threads(0, cases.size(), [&](std::size_t i) {
            if (!rows[i]) return;
            const StepSlopes s =
                step_with_slopes(cases[i], keys, factors, !whole.empty() && whole[i]);
            found.errors[i] = std::log(s.step / cases[i].measured_step);
            for (const std::size_t j : indices_of(keys)) found.slopes.at(i, j) = s.slopes[j];
            if (!progress || i % 16 != 0) return;
            const std::lock_guard lock(printing);
            progress(fmt::format("fitting: pass {}, row {} of {}", pass, i + 1, cases.size()));
        });
        return found;
    };
}

Vector whole_errors(const std::vector<Case>& cases, const std::vector<StepConstant>& constants,
                    const Posterior& at, const std::vector<bool>& whole) {
    const std::vector<std::string> keys = keys_of(constants);
    const std::vector<double> factors = factors_at(at.x);
    Vector errors = at.rows.errors;
    each_on_threads(0, cases.size(), [&](std::size_t i) {
        if (whole[i] || !goes_on_from_few(cases[i].experiment)) return;
        errors[i] = std::log(of_whole(at_factors(cases[i].experiment, keys, factors), {}).step /
                             cases[i].measured_step);
    });
    return errors;
}

}  // namespace stepcast
