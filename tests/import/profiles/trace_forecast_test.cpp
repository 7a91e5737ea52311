// Traces made of a forecast itself, each kind of work so many times slower: what is said of them
// follows by hand.
#include "calibrate/trace_forecast.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/transformer/step.h"
#include "sim/costs/costs.h"
#include "sim/engine/simulate.h"
#include "tests/transformers.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

using Names = std::vector<std::string>;

Experiment two_replicas() {
    Experiment e = small_gpt();
    e.name = "replicas";
    e.workload.layers = 3;
    e.runtime.attention = AttentionKind::flash;
    e.cluster.gpus_per_node = e.parallelism.dp = 2;
    e.parallelism.global_batch = 4;  // two micro-batches each
    return e;
}

std::int64_t ns(Seconds time) { return std::llround(1e9 * time.si()); }

ProfilePhase traced_phase(Phase phase) {
    return phase == Phase::optimizer                                   ? ProfilePhase::optimizer
           : phase == Phase::backward || phase == Phase::gradient_sync ? ProfilePhase::backward
                                                                       : ProfilePhase::forward;
}

// The tasks of a rank of the graph on its device, by their start.
std::vector<TaskId> tasks_of(const Prediction& p, int rank) {
    std::vector<TaskId> tasks;
    for (TaskId t = 0; t < p.graph.size(); ++t)
        if (std::ranges::any_of(p.graph.places(t), [&](const Place& place) {
                return place.rank() == rank && place.lane() != Lane::host;
            }))
            tasks.push_back(t);
    std::ranges::stable_sort(tasks, {}, [&](TaskId t) { return p.timeline.start[t]; });
    return tasks;
}

// What a rank's profiler would show of them, `slower` times as slow, from `from` on; its step's
// mark, of 2 and 1/2 of its length before and behind, with a kernel each that is not of the step.
// The last mark has no end of its own.
Profile traced(const Prediction& p, int rank, int of_graph, double slower,
               std::int64_t origin = 0) {
    Profile profile;
    profile.path = "/traces/rank" + std::to_string(rank) + ".json";
    profile.rank = rank;
    profile.origin = origin;
    profile.names = {"kernel", "other"};
    profile.operators = {{"", "", Gemm{}}, {"", "", Attention{}}, {"", "", MemoryPass{}}};
    const std::int64_t length = ns(1.1 * slower * p.timeline.end), from = 2 * length;
    const auto other = [&](std::int64_t at, std::int64_t launched) {
        DeviceSpan span;
        span.name = 1;
        span.start = at;
        span.finish = at + 7;
        span.launched = launched;
        span.sized = 0;
        profile.spans.push_back(span);
    };
    other(from + 1, from - 1);  // launched in the step before
    for (const TaskId t : tasks_of(p, of_graph)) {
        const std::string_view kind = kind_name(p.graph.op(t));
        DeviceSpan span;
        span.start = from + ns(slower * p.timeline.start[t]);
        span.finish = from + ns(slower * p.timeline.finish[t]);
        span.launched = from + std::min<std::int64_t>(length - 1, ns(p.timeline.start[t]));
        span.stream = 20;
        span.phase = traced_phase(p.graph.phase(t));
        span.instance = static_cast<std::int32_t>(t);
        if (kind == "gemm")
            span.sized = 0;
        else if (kind == "attention")
            span.sized = 1;
        else if (kind == "memory_pass")
            span.sized = 2;
        else {
            span.kind = SpanKind::communication;
            span.instance = -1;
            span.stream = 30;
            span.collective = static_cast<std::int32_t>(profile.collectives.size());
            CollectiveCall call;
            call.op = kind;
            call.group = "dp";
            profile.collectives.push_back(call);
        }
        profile.spans.push_back(span);
    }
    other(from + length, from + length);  // launched as the step ends
    const auto seconds = [](std::int64_t time) {
        return Seconds(1e-9 * static_cast<double>(time));
    };
    profile.steps = {{"Step#5", Seconds(0), seconds(from)},
                     {"Step#6", seconds(from), seconds(3)},
                     {"Step#7", seconds(from + length), seconds(4)},
                     {"Step#8", seconds(from + length + length / 2), seconds(9 * length)}};
    return profile;
}

using Sums = std::map<std::pair<std::string, Phase>, Seconds>;

bool is_traced(const std::string& kind) { return kind != "host_work"; }

// What the forecast's tasks of a rank take: exchanges as a whole, others by phase.
Sums sums_of(const Prediction& p, const Costs& costs, int rank, bool phases = true) {
    Sums sums;
    for (const TaskId t : tasks_of(p, rank)) {
        const std::string kind(kind_name(p.graph.op(t)));
        Phase phase = p.graph.phase(t) == Phase::between         ? Phase::forward
                      : p.graph.phase(t) == Phase::gradient_sync ? Phase::backward
                                                                 : p.graph.phase(t);
        if (kind == "all_reduce" || !phases) phase = Phase::forward;
        sums[{kind, phase}] += costs.duration[t];
    }
    return sums;
}

}  // namespace

// One rank takes 2 and one 3 times as long: 2.5 in the mean for what each does by itself;
// all-reduces 2 times, as on the rank that comes last.
TEST_CASE("a trace of the forecast's own work, slower, is told kind by kind") {
    const Experiment e = two_replicas();
    const Prediction p = predict_step(e);
    REQUIRE(p.graph.rank_count() == 1);  // folded: one rank stands for both
    const TraceForecast found = forecast_of_trace({traced(p, 0, 0, 2), traced(p, 1, 0, 3)}, e);
    const ErrorAttribution& error = *found.comparison.attribution;
    CHECK(found.notes.empty());
    CHECK(error.predicted == p.timeline.end);
    CHECK(error.measured.si() == Approx(1.1 * 2.5 * p.timeline.end.si()).epsilon(1e-3));
    const Costs costs = price(p.graph, e.cluster);
    const auto replayed = [&](const KindError* but) {
        Costs slower = costs;
        for (TaskId t = 0; t < p.graph.size(); ++t) {
            const std::string kind(kind_name(p.graph.op(t)));
            const Phase phase = kind == "all_reduce" ? Phase::forward : p.graph.phase(t);
            const bool left =
                but && but->kind == kind && (kind == "all_reduce" || but->phase == phase);
            if (is_traced(kind) && !left) slower.duration[t] *= kind == "all_reduce" ? 2 : 2.5;
        }
        Timeline timeline;
        run_in_order(p.graph, slower, timeline);
        return timeline.end.si();
    };
    CHECK(error.replayed.si() == Approx(replayed(nullptr)).epsilon(1e-3));
    const Sums sums = sums_of(p, costs, 0);
    CHECK(error.kinds.size() == sums.size());
    double before = 1e300;
    for (const KindError& k : error.kinds) {
        CAPTURE(k.kind, to_string(k.phase));
        const bool exchange = k.kind == "all_reduce";
        const Seconds predicted = sums.at({k.kind, exchange ? Phase::forward : k.phase});
        CHECK(k.predicted.si() == Approx(predicted.si()).epsilon(1e-6));
        CHECK(k.measured.si() == Approx((exchange ? 2 : 2.5) * predicted.si()).epsilon(2e-3));
        CHECK(k.effect.si() == Approx(replayed(&k) - replayed(nullptr)).epsilon(2e-3).margin(1e-9));
        CHECK(std::abs(k.effect.si()) <= before);
        before = std::abs(k.effect.si());
        if (exchange) CHECK(k.phase == Phase::gradient_sync);  // where the forecast has them
    }
    const Case& what = found.comparison.what;
    CHECK((what.source == "/traces/rank0.json" && what.case_id == "rank0.json Step#6" &&
           what.series == "replicas"));
    CHECK(what.measured_step == error.measured);
    CHECK(what.experiment == e);
    CHECK(what.evidence == Evidence::unseen);
    CHECK_FALSE(what.measured_peak);
    CHECK(found.comparison.forecast == p.forecast);
}

// The clocks of the ranks differ: rank 1 began 5 us after rank 0.
TEST_CASE("traced slices stand in the forecast's time, with the layers of its products") {
    const Experiment e = two_replicas();
    const Prediction p = predict_step(e);
    std::vector<Profile> job{traced(p, 0, 0, 1, 1000), traced(p, 1, 0, 1, 6000)};
    const DeviceSpan &first = job[0].spans[1], &last = job[0].spans[job[0].spans.size() - 2];
    job[0].memory = {{first.start - 1, 11, 0},
                     {first.start, 13, 0},
                     {last.finish, 17, 0},
                     {last.finish + 1, 19, 0}};
    const TraceForecast found = forecast_of_trace(job, e);
    CHECK(found.traced.processes == std::vector<std::pair<int, std::string>>{
                                        {1000, "traced rank 0"}, {1001, "traced rank 1"}});
    const std::vector<TaskId> tasks = tasks_of(p, 0);
    REQUIRE(found.traced.slices.size() == 2 * tasks.size());
    const Seconds work = p.timeline.start[tasks.front()];
    int labelled = 0, attentions = 0;
    for (std::size_t i = 0; i < found.traced.slices.size(); ++i) {
        const TracedSlice& s = found.traced.slices[i];
        const TaskId t = tasks[i % tasks.size()];
        const std::string kind(kind_name(p.graph.op(t)));
        CHECK((s.process == (i < tasks.size() ? 1000 : 1001) && s.name == "kernel" &&
               s.kind == kind));
        CHECK(s.track == (kind == "all_reduce" ? 30 : 20));
        CHECK(s.phase == to_string(traced_phase(p.graph.phase(t))));
        CHECK(
            (s.start - work).si() ==
            Approx((p.timeline.start[t] - work).si() + (i < tasks.size() ? 0 : 5e-6)).margin(2e-9));
        CHECK(s.length.si() ==
              Approx((p.timeline.finish[t] - p.timeline.start[t]).si()).margin(2e-9));
        const bool told =
            s.layer == p.graph.label(t).layer && s.micro_batch == p.graph.label(t).micro_batch;
        CHECK((told || (kind != "gemm" && s.layer == -1 && s.micro_batch == -1)));
        if (kind == "attention" && s.phase == "forward") attentions += told ? 1 : 0;
        labelled += told && s.layer >= 0;
    }
    // ranks, micro-batches, layers: between two products of the layer
    CHECK(attentions == 2 * 2 * 3);
    CHECK(labelled > 2 * 2 * 3 * 4);
    REQUIRE(found.traced.memory.size() == 2);
    CHECK((found.traced.memory[0].rank == 1000 && found.traced.memory[0].in_use == Bytes(13) &&
           found.traced.memory[0].time == found.traced.slices[0].start));
    CHECK(found.traced.memory[1].in_use == Bytes(17));
}

namespace {

// Without the products of the forward that are the `nth` of their layer and micro-batch; at most so
// many of them.
Profile without(Profile profile, const TaskGraph& graph, std::size_t nth, int most) {
    std::map<std::pair<int, int>, std::size_t> seen;
    std::erase_if(profile.spans, [&](const DeviceSpan& s) {
        if (s.sized != 0 || s.phase != ProfilePhase::forward || s.instance < 0) return false;
        const auto t = static_cast<TaskId>(s.instance);
        const TaskLabel& label = graph.label(t);
        return label.layer >= 0 && seen[{label.layer, label.micro_batch}]++ == nth && most-- > 0;
    });
    return profile;
}

}  // namespace

// Three products a layer where the forecast has four (two in one): the layers are told all the
// same. One product of one layer less is no whole number a layer.
TEST_CASE("products that fall evenly on the layers tell theirs, others are said") {
    const Experiment e = two_replicas();
    const Prediction p = predict_step(e);
    std::map<std::pair<int, int>, int> products;
    std::size_t forward = 0;
    for (const TaskId t : tasks_of(p, 0))
        if (kind_name(p.graph.op(t)) == "gemm" && p.graph.phase(t) == Phase::forward)
            ++products[{p.graph.label(t).layer, p.graph.label(t).micro_batch}], ++forward;
    const Profile whole = traced(p, 0, 0, 1);
    const TraceForecast fewer = forecast_of_trace({without(whole, p.graph, 1, 99)}, e);
    CHECK(fewer.notes.empty());
    std::map<std::pair<int, int>, int> told;
    for (const TracedSlice& s : fewer.traced.slices)
        if (s.kind == "gemm" && s.phase == "forward") ++told[{s.layer, s.micro_batch}];
    for (auto& [label, count] : products) count -= label.first >= 0;
    CHECK(told == products);
    const TraceForecast odd = forecast_of_trace({without(whole, p.graph, 1, 1)}, e);
    CHECK(odd.notes == Names{"rank 0: " + std::to_string(forward - 1) +
                             " GEMMs in the forward, the forecast has " + std::to_string(forward) +
                             ": layers and micro-batches of its slices are unknown"});
    for (const TracedSlice& s : odd.traced.slices)
        if (s.phase == "forward") CHECK((s.layer == -1 && s.micro_batch == -1));
    // A phase without products has none to tell.
    Profile no_forward = whole;
    std::erase_if(no_forward.spans, [](const DeviceSpan& s) {
        return s.sized == 0 && s.instance >= 0 && s.phase == ProfilePhase::forward;
    });
    CHECK(forecast_of_trace({no_forward}, e).notes.empty());
    // Kernels of one call of an operator are one product.
    Profile split = whole;
    for (const DeviceSpan& s : whole.spans)
        if (s.sized == 0 && s.instance >= 0) {
            split.spans.push_back(s);
            split.spans.back().start += 1;
        }
    std::ranges::stable_sort(split.spans, {}, &DeviceSpan::start);
    CHECK(forecast_of_trace({split}, e).notes.empty());
}

// Without marks all is one step, from the first kernel's start to the last one's end; without a
// backward, phases are not told.
TEST_CASE("a trace without marks or phases is held against the whole step") {
    const Experiment e = two_replicas();
    const Prediction p = predict_step(e);
    Profile plain = traced(p, 1, 0, 2);
    std::erase_if(plain.spans, [](const DeviceSpan& s) { return s.name == 1; });
    plain.steps.clear();
    for (DeviceSpan& s : plain.spans) s.phase = ProfilePhase::forward;
    plain.peak_allocated = Bytes(77);
    Experiment fitted = e;
    fitted.cluster.fitted.emplace().sources = {"mine.passes.csv"};
    const TraceForecast found = forecast_of_trace({plain}, fitted);
    CHECK(found.notes.at(0) == "no ProfilerStep: the whole trace is held against one step");
    CHECK(found.notes.at(1) ==
          "the trace names no phases: kinds of work are summed over whole steps");
    CHECK(found.comparison.what.case_id == "rank1.json");
    CHECK(found.comparison.what.evidence == Evidence::fitted);
    CHECK(found.comparison.what.measured_peak == Bytes(77));
    CHECK(
        found.comparison.what.measured_step.si() ==
        Approx(2 * (p.timeline.end - p.timeline.start[tasks_of(p, 0).front()]).si()).epsilon(1e-3));
    const Sums sums = sums_of(p, price(p.graph, e.cluster), 0, false);
    CHECK(found.comparison.attribution->kinds.size() == sums.size());
    for (const KindError& k : found.comparison.attribution->kinds)
        CHECK(k.measured.si() == Approx(2 * sums.at({k.kind, Phase::forward}).si()).epsilon(2e-3));
    // A kind that the forecast does not have is measured all the same.
    plain.collectives.back().op = "reduce";
    const TraceForecast odd = forecast_of_trace({plain}, e);
    CHECK(odd.notes.at(1) == "reduce in the forward: traced, and not in the forecast");
    Profile fewer = traced(p, 1, 0, 1);
    fewer.steps.resize(1);
    CHECK_THROWS_WITH(forecast_of_trace({traced(p, 0, 0, 1), fewer}, e),
                      Contains("rank1.json: 1 steps, not the first rank's step 1"));
    Profile early = traced(p, 0, 0, 1);
    for (DeviceSpan& s : early.spans) s.launched = not_launched;
    CHECK_THROWS_WITH(forecast_of_trace({early}, e),
                      Contains("no kernel was launched within the step"));
    plain.ranks = 3;
    CHECK_THROWS_WITH(forecast_of_trace({plain}, e),
                      Contains("a job of 3 ranks, but replicas has 2"));
    // Of two marks the first counts, whose end the second tells; alone a mark has its own length.
    Profile marked = traced(p, 0, 0, 1);
    marked.steps = {marked.steps[1], marked.steps[2]};
    CHECK(forecast_of_trace({marked}, e).comparison.what.measured_step.si() ==
          Approx(1.1 * p.timeline.end.si()).epsilon(1e-3));
    marked.steps.pop_back();
    marked.steps[0].duration = 2 * p.timeline.end;
    CHECK(forecast_of_trace({marked}, e).comparison.what.measured_step.si() ==
          Approx(2 * p.timeline.end.si()).epsilon(1e-3));
}

// All launched before the step on the device begins: it is told by when its kernels start, and its
// place by how many are not timed.
TEST_CASE("a step that is timed on the device holds what runs there in its time") {
    const Experiment e = two_replicas();
    const Prediction p = predict_step(e);
    std::vector<Profile> job{traced(p, 0, 0, 1), traced(p, 1, 0, 1)};
    const TraceForecast as_launched = forecast_of_trace(job, e);
    for (Profile& rank : job) {
        rank.steps_on_device = true;
        for (DeviceSpan& s : rank.spans) s.launched = 0;
        std::erase_if(rank.spans, [](const DeviceSpan& s) { return s.name == 1; });
    }
    const TraceForecast found = forecast_of_trace(job, e);
    CHECK(found.comparison.what.measured_step == as_launched.comparison.what.measured_step);
    CHECK(found.comparison.attribution->kinds.size() ==
          as_launched.comparison.attribution->kinds.size());
    CHECK(found.traced.slices.size() == as_launched.traced.slices.size());
    job[1].steps.erase(job[1].steps.begin());  // Step#5 is not timed
    for (ProfiledStep& s : job[1].steps) s.skipped = 1;
    CHECK(forecast_of_trace(job, e).comparison.what.measured_step ==
          found.comparison.what.measured_step);
}

// Two stages of two replicas: ranks 0 and 1 are the first stage, 2 and 3 the second; a folded graph
// has one rank for each.
TEST_CASE("a rank of a pipeline is held against its stage") {
    Experiment e = two_replicas();
    e.cluster.gpus_per_node = 4;
    e.parallelism.pp = 2;
    e.workload.layers = 4;
    const Prediction p = predict_step(e);
    REQUIRE(p.graph.rank_count() == 2);
    const Costs costs = price(p.graph, e.cluster);
    for (int rank = 0; rank < 4; ++rank) {
        const TraceForecast found = forecast_of_trace({traced(p, rank, rank / 2, 2)}, e);
        const Sums sums = sums_of(p, costs, rank / 2);
        CAPTURE(rank);
        for (const KindError& k : found.comparison.attribution->kinds)
            if (k.kind == "gemm")
                CHECK(k.predicted.si() == Approx(sums.at({"gemm", k.phase}).si()).epsilon(1e-6));
        CHECK(found.traced.processes.front().first == 1000 + rank);
        CHECK(found.notes.empty());
        std::map<std::pair<int, int>, int> told, expected;
        for (const TracedSlice& s : found.traced.slices)
            if (s.kind == "gemm") ++told[{s.layer, s.micro_batch}];
        for (const TaskId t : tasks_of(p, rank / 2))
            if (kind_name(p.graph.op(t)) == "gemm")
                ++expected[{p.graph.label(t).layer, p.graph.label(t).micro_batch}];
        CHECK(told == expected);
    }
}

// By the operator where it is known, else by words of the kernel's name; collectives that nothing
// names are all-reduces.
TEST_CASE("the kind of a kernel") {
    const Experiment e = two_replicas();
    const Prediction p = predict_step(e);
    Profile trace = traced(p, 0, 0, 1);
    trace.spans.resize(2);
    trace.steps.clear();
    const std::pair<const char*, const char*> names[] = {
        {"flash_fwd", "attention"},
        {"fmha_v2_gemm", "attention"},
        {"my_attention", "attention"},
        {"grouped_gemm_x", "grouped_gemm"},
        {"GroupedGemmKernel", "grouped_gemm"},
        {"aten_grouped_mm", "grouped_gemm"},
        {"cutlass<GroupProblemShape>", "grouped_gemm"},
        {"sgemm", "gemm"},
        {"nvjet_tst", "gemm"},
        {"cutlass_80", "gemm"},
        {"sm80_xmma", "gemm"},
        {"Cijk_Alik", "gemm"},
        {"gemv2T", "gemm"},
        {"elementwise", "memory_pass"}};
    std::size_t i = 0;
    const DeviceSpan any = trace.spans.back();
    trace.spans.clear();
    Names expected;
    for (const auto& [name, kind] : names) {
        DeviceSpan s = any;
        s.sized = -1;
        s.kind = SpanKind::compute;
        s.name = static_cast<std::uint32_t>(trace.names.size());
        s.start += static_cast<std::int64_t>(++i);
        trace.names.emplace_back(name);
        trace.spans.push_back(s);
        expected.emplace_back(kind);
    }
    trace.spans.push_back(trace.spans.front());
    trace.spans.back().kind = SpanKind::copy;
    expected.emplace_back("memory_pass");
    trace.spans.push_back(trace.spans.front());
    trace.spans.back().kind = SpanKind::communication;
    expected.emplace_back("all_reduce");
    trace.collectives = {{"all_gather_into_tensor", "", "", "", 2, -1, -1, 1, 1, true}};
    trace.spans.push_back(trace.spans.front());
    trace.spans.back().kind = SpanKind::communication;
    trace.spans.back().collective = 0;
    expected.emplace_back("all_gather");
    Names found;
    for (const TracedSlice& s : forecast_of_trace({trace}, e).traced.slices)
        found.push_back(s.kind);
    CHECK(found == expected);
}
