#include "sim/predict.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "measured/medians.h"
#include "measured/priors.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/input/check_experiment.h"
#include "model/input/remarks.h"
#include "model/input/split_rules.h"
#include "model/recorded/coca/blocks.h"
#include "model/records/measurements.h"
#include "model/step.h"
#include "model/transformer/counts.h"
#include "model/transformer/rank_shape.h"
#include "sim/breakdown.h"
#include "sim/costs/clock.h"
#include "sim/costs/extrapolations.h"
#include "sim/drawn_experts.h"
#include "sim/explain/basis.h"
#include "sim/interval.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/noise.h"
#include "sim/pipeline_notes.h"

namespace stepcast {
namespace {

struct Draw {
    StepTimes times;
    int index = 0;
};

struct Simulated {
    TaskGraph graph;
    Costs costs;
    Timeline timeline;
};

Simulated simulate_quiet(const Experiment& e, int draw, Record record = Record::times) {
    Simulated s{build_step(e, routing_of(e, draw)), {}, {}};
    s.costs = price(s.graph, e.cluster);
    run(s.graph, s.costs, e.cluster.interference, s.timeline, record);
    return s;
}

bool is_noisy(const Experiment& e) { return e.routing.draws > 1 && has_noise(e.cluster.noise); }

// The costs with the noise of a draw.
Costs disturbed(const Simulated& quiet, const Experiment& e, int draw) {
    Costs costs = quiet.costs;
    std::mt19937_64 random = random_of(e, draw);
    add_noise(quiet.graph, e.cluster, quiet.timeline, random, costs);
    return costs;
}

// Whether all draws have the same graph, so that only their noise differs.
bool draws_share_graph(const Experiment& e) {
    const auto kind = e.workload.kind;
    return (kind == Workload::Kind::transformer || kind == Workload::Kind::coca) &&
           routing_of(e).counts.empty();
}

// `quiet` returns the simulation without noise of the last draw that needed its own graph.
std::vector<Draw> simulate_draws(const Experiment& e, Simulated& quiet) {
    std::vector<Draw> draws;
    const bool noisy = is_noisy(e), shared = e.routing.draws > 1 && draws_share_graph(e);
    for (int d = 0; d < e.routing.draws; ++d) {
        if (d > 0 && shared && !noisy) {
            draws.push_back({draws.front().times, d});
            continue;
        }
        if (d == 0 || !shared)
            quiet = simulate_quiet(e, d, e.routing.draws == 1 ? Record::waits : Record::times);
        const auto times_of = [&](const Timeline& timeline) {
            return step_times(quiet.graph, timeline, reporting_rank(quiet.graph));
        };
        if (!noisy) {
            draws.push_back({times_of(quiet.timeline), d});
            continue;
        }
        Timeline timeline;
        run(quiet.graph, disturbed(quiet, e, d), e.cluster.interference, timeline);
        draws.push_back({times_of(timeline), d});
    }
    return draws;
}

std::vector<double> values_of(const std::vector<Draw>& draws, Seconds StepTimes::*part) {
    std::vector<double> values;
    for (const Draw& draw : draws) values.push_back((draw.times.*part).si());
    return values;
}

// Uses the doubts of the whole step, but the spread of the draws for this part.
Interval interval_of(const std::vector<Draw>& draws, Seconds StepTimes::*part, Doubts doubts) {
    const std::vector<double> values = values_of(draws, part);
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / real(values.size());
    const Seconds median(middle_of(values));
    reach_of_draws(values, median.si(), doubts);
    return predictive_interval(median, Seconds(mean), doubts);
}

int fitted_steps(const std::optional<Fitted>& fitted) {
    return fitted && contains(fitted->measured, "step") ? fitted->samples : 0;
}

// For each other reading: its step time over the experiment's, both with the routing of this draw
// and without noise. Readings that make no legal experiment, and frameworks that cannot run it, are
// left out. `printed` is the simulation of that draw.
std::vector<OtherReading> other_readings(const Experiment& e, int draw, const Simulated& printed) {
    std::vector<OtherReading> found;
    const std::vector<Reading> readings = readings_of(e);
    if (readings.empty()) return found;
    const Seconds as_read =
        e.routing.draws == 1 ? printed.timeline.end : simulate_quiet(e, draw).timeline.end;
    for (const Reading& reading : readings) {
        Experiment other = e;
        try {
            for (const Override& key : reading.keys) set_key(other, key);
            check_experiment(other);
        } catch (const ConfigError&) {
            continue;
        }
        if (other.framework != e.framework && !beyond_framework(other).empty()) continue;
        found.push_back({reading.what, simulate_quiet(other, draw).timeline.end / as_read});
    }
    return found;
}

// What a vocabulary costs that is no multiple of 8 words, or which one is used in its place.
std::vector<std::string> vocabulary_notes(const Experiment& e) {
    constexpr int usual_multiple = 64;
    constexpr double worth_telling = 0.02;
    const Workload& w = e.workload;
    if (w.kind != Workload::Kind::transformer || w.vocab == 0) return {};
    const long used = padded_vocab(e);
    if (real(used) > (1 + worth_telling) * w.vocab)
        return {fmt::format("vocabulary of {} words counted as {}: runtime.vocab_multiple is {}",
                            w.vocab, used, e.runtime.vocab_multiple)};
    if (alignment_of(rank_shape(e).vocab) == Gemm::Alignment::full) return {};
    Experiment padded = e;
    padded.runtime.vocab_multiple = usual_multiple;
    const double faster =
        1 - simulate_quiet(padded, 0).timeline.end / simulate_quiet(e, 0).timeline.end;
    if (faster < worth_telling) return {};
    return {
        fmt::format("vocabulary of {} words, unaligned: padded to {} the step takes {:.0f} % less "
                    "time (runtime.vocab_multiple = {})",
                    w.vocab, padded_vocab(padded), 100 * faster, usual_multiple)};
}

// Of late ranks whose delay does not follow the step, the mean tells little.
std::vector<std::string> delay_notes(const Experiment& e, const Interval& step) {
    const Noise& noise = e.cluster.noise;
    if (!is_noisy(e) || noise.straggler_rate == 0 || noise.straggler_step > Seconds(0) ||
        step.mean <= step.p90)
        return {};
    const double steps = 1 - std::pow(1 - noise.straggler_rate, rank_count(e.cluster));
    return {fmt::format(
        "the mean of the draws, {}, is above p90: in {:.2g} % of the steps a rank is late by {}, "
        "however short the step; "
        "cluster.noise.straggler_step, the length of the steps in which that was seen, scales it",
        to_string(step.mean), 100 * steps, to_string(noise.straggler_delay))};
}

std::vector<KernelTime> kernel_times(const TaskGraph& graph, const Timeline& timeline) {
    // A graph stores equal names once, so the address identifies a name.
    std::map<std::tuple<const char*, Phase, int>, Seconds> by_address;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const Place place = graph.places(t).front();
        if (place.lane() != Lane::compute) continue;
        by_address[{graph.name(t).data(), graph.phase(t), place.rank()}] +=
            timeline.finish[t] - timeline.start[t];
    }
    std::vector<KernelTime> kernels;
    for (const auto& [key, time] : by_address)
        kernels.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), time});
    std::ranges::sort(kernels, {},
                      [](const KernelTime& k) { return std::tie(k.name, k.phase, k.rank); });
    return kernels;
}

std::vector<Note> notes_on(const Experiment& e, const TaskGraph& graph) {
    std::vector<Note> notes;
    add_remarks(notes, remarks_on(e));
    add_remarks(notes, beyond_framework(e));
    append(notes, extrapolations(graph, e.cluster));
    if (!e.cluster.fitted) return notes;
    for (const FittedParameter& p : e.cluster.fitted->parameters)
        if (!p.determined)
            notes.push_back(
                {.kind = Note::Kind::undetermined, .key = p.key, .text = short_value(p.prior)});
    return notes;
}

// What the forecast is about, and how many steps its constants were fitted on.
void describe(const Experiment& e, Forecast& f) {
    f.experiment = e.name;
    f.cluster = e.cluster.name;
    f.framework = framework_has_effect(e) ? e.framework.name : "";
    f.sequences = sequences_of_step(e.parallelism);
    f.seq = e.workload.seq;
    f.micro_batch = e.parallelism.micro_batch;
    f.split = degrees_text(e.parallelism);
    f.calibrated = e.cluster.fitted.has_value();
    if (!f.calibrated) f.maker = unmeasured_maker(e.cluster.gpu);
    f.cluster_steps = fitted_steps(e.cluster.fitted);
    f.framework_steps = fitted_steps(e.framework.fitted);
    f.framework_as_begun = e.framework.fitted && e.framework.fitted->parameters.empty();
    f.draws = e.routing.draws;
    f.noise = is_noisy(e);
    f.gpus = rank_count(e.cluster);
}

// Below this a faster host changes p10 by less than what it takes to find out.
constexpr double least_error_of_hosts = 0.08;

// Doubts::hidden.
double hidden_part(const Experiment& e, const Simulated& s, const std::vector<CostBasis>& basis) {
    const double error = error_of_hosts(e, basis);
    if (error < least_error_of_hosts) return 0;
    const auto end_on = [&](const Cluster& cluster) {
        Timeline timeline;
        run(s.graph, price(s.graph, cluster), e.cluster.interference, timeline);
        return timeline.end;
    };
    const Seconds now = is_noisy(e) ? end_on(e.cluster) : s.timeline.end;
    return hidden_of_hosts(error, now, end_on(with_fast_hosts(e.cluster)));
}

void add_intervals(const std::vector<Draw>& draws, Forecast& f) {
    f.step = interval_of(draws, &StepTimes::step, f.doubts);
    f.forward = interval_of(draws, &StepTimes::forward, f.doubts);
    f.backward = interval_of(draws, &StepTimes::backward, f.doubts);
    f.gradient_sync = interval_of(draws, &StepTimes::gradient_sync, f.doubts);
    f.optimizer = interval_of(draws, &StepTimes::optimizer, f.doubts);
    reach_of_draws(values_of(draws, &StepTimes::step), f.step.p50.si(), f.doubts);
}

// The simulation of the median draw, and what its times say of the step: all that `f` holds but
// memory, energy, rates and notes.
Simulated simulate_middle(const AsRun& as, Forecast& f) {
    const Experiment& e = as.experiment;
    const std::optional<ClassScatter> others = class_of(shipped_scatter(), e, as.circumstances);
    Simulated s;
    std::vector<Draw> draws = simulate_draws(e, s);
    describe(e, f);
    std::ranges::sort(draws, {}, [](const Draw& d) { return d.times.step; });
    const Draw& median_draw = draws[(draws.size() - 1) / 2];
    std::vector<OtherReading> readings = as.readings;
    if (draws.size() > 1) s = simulate_quiet(e, median_draw.index, Record::waits);
    if (is_noisy(e)) {
        s.costs = disturbed(s, e, median_draw.index);
        run(s.graph, s.costs, e.cluster.interference, s.timeline, Record::waits);
    }
    append(readings, other_readings(e, median_draw.index, s));
    if (balances_experts(e)) f.drawn = as.drawn ? *as.drawn : drawn_experts(e, s.timeline.end);
    f.median_draw = median_draw.index;
    f.phases = median_draw.times;
    f.breakdown = breakdown(s.graph, s.costs, s.timeline, limiting_rank(s.graph, s.timeline));
    f.basis = basis_of(s.graph, s.costs, s.timeline, e.cluster);
    f.doubts = doubts_of(e, f.basis);
    f.doubts.hidden = hidden_part(e, s, f.basis);
    if (others) {  // a user may follow the recipe, whose own scatter is the least
        const Doubts least = of_others(as.circumstances) ? Doubts{} : f.doubts;
        f.doubts.faster = std::max(least.faster, others->scatter.faster);
        f.doubts.slower = std::max(least.slower, others->scatter.slower);
    }
    if (f.drawn && f.drawn->step > 1) f.doubts.experts = std::log(f.drawn->step);
    f.doubts.readings = std::move(readings);
    add_intervals(draws, f);
    return s;
}

}  // namespace

double middle_of(std::vector<double> values) {
    const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
    std::ranges::nth_element(values, middle);
    return *middle;
}

// For balanced routing: forward two GEMMs a slot (dense: a token) and the gate, backward twice as
// much.
Flops model_flops(const Experiment& e, double tokens) {
    const Workload& w = e.workload;
    if (w.kind == Workload::Kind::transformer) return model_flops(w, tokens / w.seq);
    if (w.kind == Workload::Kind::coca) return 3.0 * (tokens / w.seq) * tower_flops(w);
    const double expert =
        2.0 * 2.0 * w.hidden * w.ffn * (w.kind == Workload::Kind::mlp ? 1 : w.moe.top_k);
    const double gate = 2.0 * w.hidden * w.moe.experts;
    return Flops(3.0 * tokens * w.layers * (expert + gate));
}

static Flops masked_flops(const Experiment& e, double tokens) {
    const Workload& w = e.workload;
    return w.kind == Workload::Kind::transformer ? masked_flops(w, tokens / w.seq) : Flops{};
}

double tokens_per_step(const Workload& w, const Parallelism& p) {
    return real(sequences_of_step(p)) * w.seq;
}
double tokens_per_step(const Experiment& e) { return tokens_per_step(e.workload, e.parallelism); }

std::vector<Seconds> steps_of_draws(const Experiment& e) {
    if (e.routing.draws == 1) return {simulate_quiet(e, 0).timeline.end};
    Simulated last;
    std::vector<Seconds> steps;
    for (const Draw& draw : simulate_draws(e, last)) steps.push_back(draw.times.step);
    return steps;
}

Forecast predict(const Experiment& e) { return predict_step(e).forecast; }
Forecast predict(const AsRun& run) { return predict_step(run).forecast; }
Prediction predict_step(const Experiment& e) { return predict_step(AsRun{e}); }

Forecast predict_time(const AsRun& run) {
    Forecast f;
    simulate_middle(run, f);
    return f;
}

Prediction predict_step(const AsRun& as) {
    const Experiment& e = as.experiment;
    Prediction result;
    Forecast& f = result.forecast;
    Simulated s = simulate_middle(as, f);
    f.memory = as.memory ? *as.memory : memory_forecast(e);
    const double tokens = tokens_per_step(e);
    f.tokens_per_second = tokens / f.step.p50.si();
    f.energy = step_energy(s.graph, s.timeline, e.cluster);
    f.model_flops_per_gpu = model_flops(e, tokens) / f.step.p50 / f.gpus;
    f.model_flops_utilization = f.model_flops_per_gpu / peak(e.cluster.gpu, e.workload.dtype);
    f.masked_flops_utilization =
        f.model_flops_utilization * (1 - masked_flops(e, tokens) / model_flops(e, tokens));
    f.unequal = unequal_stages(s.graph, s.timeline);
    f.tasks = s.graph.size();
    f.ranks_simulated = s.graph.rank_count();
    f.kernels = kernel_times(s.graph, s.timeline);
    f.notes = notes_on(e, s.graph);
    add_remarks(f.notes, vocabulary_notes(e));
    add_remarks(f.notes, delay_notes(e, f.step));
    add_remarks(f.notes, pipeline_notes(e, s.graph, s.timeline));
    result.graph = std::move(s.graph);
    result.timeline = std::move(s.timeline);
    return result;
}

}  // namespace stepcast
