#include "calibrate/trace_forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "calibrate/building_blocks.h"
#include "calibrate/replay.h"
#include "import/profiles/collective_times.h"
#include "import/profiles/profile_times.h"
#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/rank_groups.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

constexpr int first_process = 1000;

std::int64_t nanoseconds(Seconds time) { return std::llround(time.si() * 1e9); }

// The kind of op, from the operator if known, else from the kernel's name.
std::string kind_of(const Profile& p, const DeviceSpan& s) {
    if (s.kind == SpanKind::communication && s.collective < 0) return "all_reduce";
    if (s.kind != SpanKind::compute || s.sized >= 0) return std::string(kind_name(op_of(p, s)));
    const std::string_view name = p.names[s.name];
    if (has_any(name, {"flash", "fmha", "attention"})) return "attention";
    if (has_any(name, {"grouped_gemm", "GroupedGemm", "grouped_mm", "GroupProblemShape"}))
        return "grouped_gemm";
    if (has_any(name, {"gemm", "nvjet", "cutlass", "xmma", "Cijk_", "gemv"})) return "gemm";
    return "memory_pass";
}

bool is_exchange(std::string_view kind) {
    return kind == "send_recv" || collective_op(kind, Bytes(0), 1);
}

// The traced step on one rank: its kernels and its length.
struct StepOfRank {
    const Profile* profile = nullptr;
    std::vector<const DeviceSpan*> spans;  // launched in the step, by start
    Seconds length;
};

// The step of median length. The last step has only its own mark as an end, so it is left out if
// there are others.
std::size_t middle_step(const Profile& p) {
    std::vector<std::size_t> order(std::max<std::size_t>(1, p.steps.size() - 1));
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return length_of_step(p, i); });
    return order[(order.size() - 1) / 2];
}

// `number`: among the marked steps.
StepOfRank step_of(const Profile& p, std::size_t number) {
    StepOfRank step{&p, {}, {}};
    std::int64_t from = std::numeric_limits<std::int64_t>::min() + 1,
                 to = std::numeric_limits<std::int64_t>::max();
    if (!p.steps.empty()) {
        std::size_t index = 0;
        while (index < p.steps.size() && number_of_step(p, index) < number) ++index;
        if (index == p.steps.size() || number_of_step(p, index) != number)
            refuse(
                "{}: {} steps, not the first rank's step {}; expected the same steps of every rank",
                p.path, p.steps.size(), number);
        step.length = length_of_step(p, index);
        from = nanoseconds(p.steps[index].start);
        to = from + nanoseconds(step.length);
    }
    std::int64_t last = 0;
    for (const DeviceSpan& s : p.spans) {
        const std::int64_t at = p.steps_on_device ? s.start : s.launched;
        if (!p.steps.empty() && (at < from || at >= to)) continue;
        step.spans.push_back(&s);
        last = std::max(last, s.finish);
    }
    if (step.spans.empty())
        throw ConfigError(
            p.path +
            ": no kernel was launched within the step; expected a trace of host and device");
    if (p.steps.empty()) step.length = seconds(last - step.spans.front()->start);
    return step;
}

// The rank of the graph that stands for this rank of the job; one rank of a graph may stand for
// many.
int graph_rank(const Experiment& e, const TaskGraph& graph, int rank) {
    const Parallelism& p = e.parallelism;
    if (graph.rank_count() == rank_count(e.cluster)) return rank;
    if (e.workload.kind != Workload::Kind::transformer || p.pp == 1 ||
        rank >= rank_count(e.cluster))
        return 0;
    const int ranks_apart = rank_of(p, 0, 0, 0, 1);  // from a stage to the next one
    return rank / ranks_apart % p.pp;
}

using Kind = std::pair<std::string, Phase>;

// What kind work counts as. Phases are those of the trace's operators; if these tell only forward,
// kinds have none. Nor have collectives.
struct Kinds {
    bool phases = false;
    [[nodiscard]] Kind operator()(std::string_view kind, Phase phase) const {
        const bool whole = !phases || is_exchange(kind);
        if (phase == Phase::between) phase = Phase::forward;
        if (phase == Phase::gradient_sync) phase = Phase::backward;
        return {std::string(kind), whole ? Phase::forward : phase};
    }
};

// The phase in which the forecast has most time of a kind of collective.
Phase usual_phase(const TaskGraph& graph, const Costs& costs, std::string_view kind) {
    std::array<Seconds, phase_count> times{};
    for (TaskId t = 0; t < graph.size(); ++t)
        if (kind_name(graph.op(t)) == kind) times[as_index(graph.phase(t))] += costs.duration[t];
    return static_cast<Phase>(std::ranges::max_element(times) - times.begin());
}

// A traced step beside the graph that forecasts it.
struct AttributedStep {
    const Experiment& experiment;
    const TaskGraph& graph;
    const std::vector<StepOfRank>& ranks;
    Meetings meetings;
    Seconds measured;
};

// The traced and the forecast time of each kind of work, as means over the given ranks.
std::map<Kind, KindError> sums_by_kind(const AttributedStep& step, const Costs& costs,
                                       const Kinds& of) {
    const auto& [e, graph, ranks, meetings, measured] = step;
    std::map<Kind, KindError> sums;
    const double share = 1.0 / real(ranks.size());
    for (const StepOfRank& r : ranks) {
        for (const DeviceSpan* s : r.spans) {
            const auto meeting = value_in(meetings.of, s);
            sums[of(kind_of(*r.profile, *s), phase_of(s->phase))].measured +=
                (meeting ? meetings.all[*meeting].least : duration(*s)) * share;
        }
        const int rank = graph_rank(e, graph, r.profile->rank);
        for (TaskId t = 0; t < graph.size(); ++t)
            if (std::ranges::any_of(graph.places(t), [&](const Place& p) {
                    return p.rank() == rank && p.lane() != Lane::host;
                }))
                sums[of(kind_name(graph.op(t)), graph.phase(t))].predicted +=
                    costs.duration[t] * share;
    }
    for (auto& [kind, sum] : sums) std::tie(sum.kind, sum.phase) = kind;
    return sums;
}

ErrorAttribution attribute(const AttributedStep& step, std::vector<std::string>& notes) {
    const TaskGraph& graph = step.graph;
    const Cluster& cluster = step.experiment.cluster;
    Kinds of;
    for (const StepOfRank& r : step.ranks)
        of.phases = of.phases || std::ranges::any_of(r.spans, [](const DeviceSpan* s) {
                        return phase_of(s->phase) == Phase::backward;
                    });
    const Costs costs = price(graph, cluster);
    std::map<Kind, KindError> sums = sums_by_kind(step, costs, of);
    Timeline timeline;
    run(graph, costs, cluster.interference, timeline);
    ErrorAttribution error{timeline.end, {}, step.measured, {}};
    const auto scaled = [&](const Kind* but) {
        Costs replay = costs;
        for (TaskId t = 0; t < graph.size(); ++t) {
            const Kind kind = of(kind_name(graph.op(t)), graph.phase(t));
            const auto sum = value_in(sums, kind);
            if (!sum || !(sum->measured > Seconds(0)) || !(sum->predicted > Seconds(0)) ||
                (but && kind == *but))
                continue;
            replay.duration[t] *= sum->measured / sum->predicted;
        }
        // measured durations already include interference between tasks
        run_in_order(graph, replay, timeline);
        return timeline.end;
    };
    error.replayed = scaled(nullptr);
    for (auto& [kind, sum] : sums) {
        if (kind.first == "host_work") continue;
        sum.effect = scaled(&kind) - error.replayed;
        if (is_exchange(kind.first)) sum.phase = usual_phase(graph, costs, kind.first);
        error.kinds.push_back(sum);
        if (!(sum.predicted > Seconds(0)))
            add_line(notes, "{} in the {}: traced, and not in the forecast", kind.first,
                     to_string(kind.second));
    }
    std::ranges::stable_sort(error.kinds, std::greater{},
                             [](const KindError& k) { return std::abs(k.effect.si()); });
    if (!of.phases)
        notes.emplace_back("the trace names no phases: kinds of work are summed over whole steps");
    return error;
}

// Of one layer and micro-batch, or of none.
bool is_of_same_layer(const TaskGraph& graph, TaskId a, TaskId b) {
    return graph.label(a).layer == graph.label(b).layer &&
           graph.label(a).micro_batch == graph.label(b).micro_batch;
}

// The forecast's task for each traced product of a phase: the k-th if both have equally many.
// Otherwise (for example with one product or three for the projections) by layers, if the products
// at the model's ends are equally many and the rest divides evenly. Else empty.
std::vector<TaskId> matched(const std::vector<TaskId>& tasks, std::size_t calls,
                            const TaskGraph& graph) {
    if (tasks.size() == calls) return tasks;
    // one for each layer and micro-batch; one for each product of the ends
    std::vector<std::vector<TaskId>> groups;
    std::size_t layers = 0;
    for (const TaskId t : tasks) {
        const int layer = graph.label(t).layer;
        const bool same =
            !groups.empty() && layer >= 0 && is_of_same_layer(graph, groups.back().front(), t);
        if (!same) {
            groups.emplace_back();
            layers += layer >= 0 ? 1 : 0;
        }
        groups.back().push_back(t);
    }
    const std::size_t ends = groups.size() - layers;
    if (layers == 0 || calls <= ends || (calls - ends) % layers != 0) return {};
    std::vector<TaskId> of_call;
    for (const auto& group : groups)
        of_call.insert(of_call.end(),
                       graph.label(group.front()).layer >= 0 ? (calls - ends) / layers : 1,
                       group.front());
    return of_call;
}

// The first slice of each traced product of a phase.
std::vector<std::size_t> calls_in(const std::vector<TracedSlice>& slices, const StepOfRank& r,
                                  Phase phase) {
    std::vector<std::size_t> calls;
    std::int32_t before = -1;
    for (const std::size_t i : indices_of(slices)) {
        const DeviceSpan& s = *r.spans[i];
        const Phase own = s.phase == ProfilePhase::unlinked ? Phase::forward : phase_of(s.phase);
        if (slices[i].kind != "gemm" || own != phase) continue;
        if (s.instance < 0 || s.instance != before) calls.push_back(i);
        before = s.instance;
    }
    return calls;
}

// The forecast's products of a phase on a rank of its graph, by their start.
std::vector<TaskId> products_in(const Prediction& p, int rank, Phase phase) {
    std::vector<TaskId> tasks;
    for (TaskId t = 0; t < p.graph.size(); ++t)
        if (p.graph.phase(t) == phase && kind_name(p.graph.op(t)) == "gemm" &&
            p.graph.places(t).front().rank() == rank)
            tasks.push_back(t);
    std::ranges::stable_sort(tasks, {}, [&](TaskId t) { return p.timeline.start[t]; });
    return tasks;
}

// Sets layer and micro-batch of the traced products as matched() tells them, and of what runs
// between two products of the same ones.
void label(std::vector<TracedSlice>& slices, const StepOfRank& r, const Prediction& p, int rank,
           std::vector<std::string>& notes) {
    if (!p.graph.has_labels()) return;
    for (const Phase phase : {Phase::forward, Phase::backward}) {
        const std::vector<std::size_t> calls = calls_in(slices, r, phase);
        const std::vector<TaskId> tasks = products_in(p, rank, phase);
        if (tasks.empty() || calls.empty()) continue;
        const std::vector<TaskId> of_call = matched(tasks, calls.size(), p.graph);
        if (of_call.empty()) {
            add_line(notes,
                     "rank {}: {} GEMMs in the {}, the forecast has {}: layers and "
                     "micro-batches of its slices are unknown",
                     r.profile->rank, calls.size(), to_string(phase), tasks.size());
            continue;
        }
        for (const std::size_t k : indices_of(calls)) {
            const int layer = p.graph.label(of_call[k]).layer,
                      micro_batch = p.graph.label(of_call[k]).micro_batch;
            std::tie(slices[calls[k]].layer, slices[calls[k]].micro_batch) =
                std::tie(layer, micro_batch);
            if (k + 1 == calls.size() || !is_of_same_layer(p.graph, of_call[k], of_call[k + 1]))
                continue;
            for (std::size_t i = calls[k] + 1; i < calls[k + 1]; ++i)
                std::tie(slices[i].layer, slices[i].micro_batch) = std::tie(layer, micro_batch);
        }
    }
}

TracedSlices slices_of(const Experiment& e, const std::vector<StepOfRank>& ranks,
                       const Prediction& p, std::vector<std::string>& notes) {
    Seconds work = p.timeline.end;  // start of the forecast's first work on a device
    for (TaskId t = 0; t < p.graph.size(); ++t)
        if (!p.graph.on_host(t)) work = std::min(work, p.timeline.start[t]);
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const StepOfRank& r : ranks)
        first = std::min(first, r.profile->origin + r.spans.front()->start);
    TracedSlices all;
    for (const StepOfRank& r : ranks) {
        const int process = first_process + r.profile->rank;
        all.processes.emplace_back(process, fmt::format("traced rank {}", r.profile->rank));
        const std::int64_t shift = r.profile->origin - first;
        const auto at = [&](std::int64_t time) { return work + seconds(time + shift); };
        std::vector<TracedSlice> slices;
        for (const DeviceSpan* s : r.spans)
            slices.push_back({process, as_int(s->stream), r.profile->names[s->name],
                              kind_of(*r.profile, *s), std::string(to_string(s->phase)),
                              at(s->start), duration(*s)});
        label(slices, r, p, graph_rank(e, p.graph, r.profile->rank), notes);
        append(all.slices, slices);
        for (const ProfiledMemory& m : r.profile->memory)
            if (m.time >= r.spans.front()->start && m.time <= r.spans.back()->finish)
                all.memory.push_back({process, at(m.time), Bytes(m.allocated)});
    }
    return all;
}

// Whether the cluster was fitted to traces; they may include this very trace.
bool fitted_to_traces(const Cluster& cluster) {
    return cluster.fitted &&
           std::ranges::any_of(cluster.fitted->sources, [](const std::string& source) {
               return has_any(source, {".gemms.csv", ".batches.csv", ".passes.csv",
                                       ".attention.csv", ".collectives.csv"});
           });
}

}  // namespace

TraceForecast forecast_of_trace(const std::vector<Profile>& job, const Experiment& experiment) {
    const Profile& first = job.front();
    if (first.ranks > 0 && first.ranks != rank_count(experiment.cluster))
        refuse(
            "{}: a job of {} ranks, but {} has {}; expected the experiment that ran (use --gpus "
            "{})",
            first.path, first.ranks, experiment.name, rank_count(experiment.cluster), first.ranks);
    TraceForecast result{{}, predict_step(experiment), {}, {}};
    const std::size_t index = first.steps.empty() ? 0 : middle_step(first);
    std::vector<StepOfRank> ranks;
    std::vector<double> lengths;
    for (const Profile& p : job) {
        ranks.push_back(step_of(p, first.steps.empty() ? 0 : number_of_step(first, index)));
        lengths.push_back(ranks.back().length.si());
    }
    if (first.steps.empty())
        result.notes.emplace_back("no ProfilerStep: the whole trace is held against one step");
    result.comparison.attribution = attribute(
        {experiment, result.prediction.graph, ranks, meetings_of(job), Seconds(median(lengths))},
        result.notes);
    result.traced = slices_of(experiment, ranks, result.prediction, result.notes);
    Case& what = result.comparison.what;
    what.source = first.path;
    what.case_id = std::filesystem::path(first.path).filename().string() +
                   (first.steps.empty() ? "" : " " + first.steps[index].name);
    what.series = experiment.name;
    what.experiment = experiment;
    what.measured_step = Seconds(median(lengths));
    const bool fitted = fitted_to_traces(experiment.cluster);
    what.evidence = fitted ? Evidence::fitted : Evidence::unseen;
    if (fitted)
        result.notes.push_back("counted as fitted on: " + experiment.cluster.name +
                               " was fitted to traces, perhaps to this one");
    for (const Profile& p : job)
        if (p.peak_allocated > Bytes(0))
            what.measured_peak = std::max(what.measured_peak.value_or(Bytes(0)), p.peak_allocated);
    result.comparison.forecast = result.prediction.forecast;
    return result;
}

}  // namespace stepcast
