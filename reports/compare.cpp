#include "reports/compare.h"

#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/records/measurements.h"
#include "reports/table.h"

namespace stepcast {
namespace {

// Ranks from 1, ties share their average.
std::vector<double> ranks_of(const std::vector<double>& values) {
    std::vector<double> sorted = values, ranks;
    std::ranges::sort(sorted);
    for (const double value : values) {
        const auto alike = std::ranges::equal_range(sorted, value);
        ranks.push_back(
            real((alike.begin() - sorted.begin()) + 1 + (alike.end() - sorted.begin())) / 2);
    }
    return ranks;
}

std::optional<double> correlation_within_series(const std::vector<Comparison>& comparisons) {
    std::map<std::pair<std::string, std::string>,
             std::pair<std::vector<double>, std::vector<double>>>
        series;
    for (const Comparison& c : comparisons) {
        if (!c.forecast) continue;
        auto& [measured, predicted] = series[{c.what.source, c.what.series}];
        measured.push_back(c.what.measured_step.si());
        predicted.push_back(c.forecast->step.p50.si());
    }
    double weighted = 0, cases = 0;
    for (const auto& [name, values] : series) {
        if (values.first.size() < 3) continue;
        const auto rho = spearman(values.first, values.second);
        if (!rho) continue;
        weighted += *rho * real(values.first.size());
        cases += real(values.first.size());
    }
    if (cases == 0) return std::nullopt;
    return weighted / cases;
}

void add_regret(CompareSummary& s, const std::vector<Comparison>& comparisons) {
    double sum = 0;
    for (const Decision& decision : decisions_of(comparisons)) {
        const double lost = regret(decision);
        ++s.decisions;
        s.best_chosen += lost == 0;
        s.worst_regret = std::max(s.worst_regret, lost);
        sum += lost;
    }
    if (s.decisions > 0) s.regret = sum / s.decisions;
}

}  // namespace

double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / real(values.size());
}

std::optional<double> spearman(const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() < 2 || a.size() != b.size()) return std::nullopt;
    const std::vector<double> x = ranks_of(a), y = ranks_of(b);
    const double mx = mean(x), my = mean(y);
    double xy = 0, xx = 0, yy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        xy += (x[i] - mx) * (y[i] - my);
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
    }
    if (xx == 0 || yy == 0) return std::nullopt;
    return xy / std::sqrt(xx * yy);
}

double relative_error(const Comparison& c) {
    return c.forecast->step.p50 / c.what.measured_step - 1;
}

bool inside_interval(const Comparison& c) {
    return c.forecast->step.p10 <= c.what.measured_step &&
           c.what.measured_step <= c.forecast->step.p90;
}

Bytes compared_peak(const Comparison& c) {
    const MemoryUse& m = c.forecast->memory;
    return c.what.measured_reserved && m.reserved > Bytes(0) ? m.reserved : m.peak;
}

std::optional<double> peak_error(const Comparison& c) {
    if (!c.forecast || !c.what.measured_peak) return std::nullopt;
    return compared_peak(c) / *c.what.measured_peak - 1;
}

std::vector<Comparison> of_evidence(const std::vector<Comparison>& comparisons, Evidence evidence) {
    return where(comparisons,
                 [&](const Comparison& c) { return c.forecast && c.what.evidence == evidence; });
}

std::vector<KernelComparison> of_evidence(const std::vector<KernelComparison>& kernels,
                                          Evidence evidence) {
    return where(kernels, [&](const KernelComparison& k) { return k.evidence == evidence; });
}

std::string meaning_of(Evidence evidence) {
    static constexpr std::array meanings{
        "fitted on (errors of the fit, no evidence for other runs)",
        "seen (not fitted, but known while the model was made: weak evidence)",
        "unseen (neither fitted nor known while the model was made)"};
    return meanings[as_index(evidence)];
}

CompareSummary summarise(const std::vector<Comparison>& comparisons) {
    CompareSummary s;
    std::vector<double> errors, absolute;
    int inside = 0;
    for (const Comparison& c : comparisons) {
        ++s.cases;
        if (!c.forecast) {
            ++s.refused;
            continue;
        }
        ++s.predicted;
        if (!(c.what.measured_step > Seconds(0)) || !std::isfinite(c.what.measured_step.si()))
            refuse("case {}: measured step {} s; expected more than 0", c.what.case_id,
                   c.what.measured_step.si());
        inside += inside_interval(c);
        s.with_interval += has_spread(c.forecast->step);
        s.inside_of_them += has_spread(c.forecast->step) && inside_interval(c);
        errors.push_back(relative_error(c));
        absolute.push_back(std::abs(errors.back()));
        if (const auto error = peak_error(c)) {
            ++s.with_peak;
            s.peak_mape += std::abs(*error);
        }
        if (s.worst_case.empty() || absolute.back() > std::abs(s.worst_error)) {
            s.worst_error = errors.back();
            s.worst_case = c.what.case_id;
        }
    }
    if (s.predicted == 0) return s;
    if (s.with_peak > 0) s.peak_mape /= s.with_peak;
    s.mape = mean(absolute);
    s.median_ape = median(absolute);
    s.p90_ape = quantile(absolute, 0.9);
    s.bias = mean(errors);
    s.inside_interval = inside / real(s.predicted);
    s.rank_correlation = correlation_within_series(comparisons);
    add_regret(s, comparisons);
    return s;
}

std::string inside_count_text(const CompareSummary& s) {
    if (s.with_interval == 0) return "no intervals: one draw and no noise";
    std::string text =
        fmt::format("measured inside p10..p90: {} of {}", s.inside_of_them, s.with_interval);
    if (s.with_interval < s.predicted)
        text += fmt::format(" ({} more without an interval)", s.predicted - s.with_interval);
    return text;
}

namespace {

struct Mapping {
    const Experiment* experiment;
    Seconds predicted, measured;  // sums over its rows
    int rows = 0;
};

struct Job {
    const Case* first;
    std::vector<Mapping> mappings;
};

// Whether both make the same losses and updates, however these are spread over ranks.
bool trained_alike(const Runtime& a, const Runtime& b) {
    const auto of_job = [](const Runtime& r) {
        const OptimizerKernels& o = r.optimizer;
        return std::tie(r.autocast, r.fused_projections, r.fused_gate, r.row_scales,
                        r.vocab_multiple, r.loss, o.master_weights, o.clip_scales, o.fused,
                        o.reads_loss);
    };
    return of_job(a) == of_job(b);
}
bool mapped_alike(const Experiment& a, const Experiment& b) {
    const auto of_mapping = [](const Runtime& r) {
        return std::tie(r.kernels, r.eager_traffic, r.composed, r.recompute_stops_early,
                        r.context_exchange, r.gather_copies, r.gradients, r.exchanges, r.experts,
                        r.pipeline);
    };
    return a.parallelism == b.parallelism && of_mapping(a.runtime) == of_mapping(b.runtime);
}

bool same_job(const Case& a, const Case& b) {
    const Experiment &x = a.experiment, &y = b.experiment;
    return a.source == b.source && x.workload == y.workload &&
           trained_alike(x.runtime, y.runtime) && x.cluster.gpu.name == y.cluster.gpu.name &&
           rank_count(x.cluster) == rank_count(y.cluster) &&
           sequences_of_step(x.parallelism) == sequences_of_step(y.parallelism);
}

void add(Job& job, const Comparison& c) {
    const Experiment& e = c.what.experiment;
    auto at = std::ranges::find_if(
        job.mappings, [&](const Mapping& m) { return mapped_alike(*m.experiment, e); });
    if (at == job.mappings.end()) at = job.mappings.insert(at, {&e, Seconds(0), Seconds(0), 0});
    at->predicted += c.forecast->step.p50;
    at->measured += c.what.measured_step;
    ++at->rows;
}

Decision decision_of(const Job& job) {
    const Experiment& e = job.first->experiment;
    Decision d{job.first->source,
               e.workload.name,
               rank_count(e.cluster),
               as_int(job.mappings.size()),
               {},
               {}};
    const auto predicted = [](const Mapping& m) { return m.predicted / m.rows; };
    const auto measured = [](const Mapping& m) { return m.measured / m.rows; };
    d.best = measured(*std::ranges::min_element(job.mappings, {}, measured));
    const Seconds least = predicted(*std::ranges::min_element(job.mappings, {}, predicted));
    for (const Mapping& m : job.mappings)
        if (predicted(m) == least) d.chosen = std::max(d.chosen, measured(m));
    return d;
}

}  // namespace

double regret(const Decision& decision) { return decision.chosen / decision.best - 1; }

std::vector<Decision> decisions_of(const std::vector<Comparison>& comparisons) {
    std::vector<Job> jobs;
    for (const Comparison& c : comparisons) {
        if (!c.forecast) continue;
        auto at = std::ranges::find_if(
            jobs, [&](const Job& job) { return same_job(*job.first, c.what); });
        if (at == jobs.end()) at = jobs.insert(at, {&c.what, {}});
        add(*at, c);
    }
    std::vector<Decision> decisions;
    for (const Job& job : jobs)
        if (job.mappings.size() > 1) decisions.push_back(decision_of(job));
    return decisions;
}

namespace {

std::optional<Seconds> of_phase(const Forecast& f, std::string_view name) {
    if (name == "forward") return f.forward.p50;
    if (name == "backward") return f.backward.p50;
    if (name == "gradient_sync") return f.gradient_sync.p50;
    if (name == "optimizer") return f.optimizer.p50;
    return std::nullopt;
}

// "lm_head.forward" means the kernels of that name in that phase, "lm_head" those in all phases.
struct KernelName {
    std::string kernel;
    std::optional<Phase> phase;
};
KernelName kernel_name(const std::string& name) {
    for (const Phase phase :
         {Phase::forward, Phase::backward, Phase::gradient_sync, Phase::optimizer}) {
        const std::string ending = "." + std::string(to_string(phase));
        if (name.ends_with(ending)) return {name.substr(0, name.size() - ending.size()), phase};
    }
    return {name, std::nullopt};
}

// The predicted time of the measured kernels on one rank, or for rank -1 on the rank that takes
// longest.
std::optional<Seconds> of_kernels(const Forecast& f, const Recorded& recorded,
                                  const MeasuredPhase& measured) {
    const KernelName wanted = kernel_name(measured.name);
    const std::vector<std::string> names = wanted.kernel == "timed"
                                               ? words_of(recorded.timed)
                                               : std::vector<std::string>{wanted.kernel};
    std::map<int, Seconds> by_rank;
    for (const KernelTime& k : f.kernels)
        if ((!wanted.phase || k.phase == *wanted.phase) &&
            (measured.rank < 0 || k.rank == measured.rank) && contains(names, k.name))
            by_rank[k.rank] += k.time;
    std::optional<Seconds> longest;
    for (const auto& [rank, time] : by_rank) longest = std::max(longest.value_or(time), time);
    return longest;
}

}  // namespace

Seconds predicted_backward(const Comparison& c) {
    Seconds sum;
    for (const std::string& name : words_of(c.what.experiment.recorded.backward))
        if (const auto time = of_phase(*c.forecast, name)) sum += *time;
    return sum;
}

std::vector<PhaseComparison> phase_comparisons(const Comparison& c) {
    std::vector<PhaseComparison> found;
    if (!c.forecast) return found;
    for (const MeasuredPhase& measured : c.what.measured_phases) {
        auto predicted = measured.rank < 0 ? of_phase(*c.forecast, measured.name) : std::nullopt;
        if (!predicted) predicted = of_kernels(*c.forecast, c.what.experiment.recorded, measured);
        if (predicted) found.push_back({measured.name, measured.rank, measured.time, *predicted});
    }
    return found;
}

std::optional<double> series_inside(const Comparison& c) {
    if (!c.forecast || c.what.recorded_steps.empty()) return std::nullopt;
    const Interval& step = c.forecast->step;
    const auto inside = std::ranges::count_if(
        c.what.recorded_steps, [&](Seconds s) { return step.p10 <= s && s <= step.p90; });
    return real(inside) / real(c.what.recorded_steps.size());
}

}  // namespace stepcast
