// The longest paths through the slots of a pipeline, compared with counts by hand and with the ends
// of its slots.

#include <map>
#include <random>

#include <catch2/catch.hpp>

#include "sim/bounds/paths.h"
#include "sim/bounds/slots.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

constexpr std::size_t of(UnitKind kind, Pass pass) { return feature::unit(kind, pass); }
constexpr auto path_forward = Pass::forward, path_backward = Pass::backward;

FeatureTimes features(const std::map<std::size_t, double>& values) {
    FeatureTimes f{};
    for (const auto& [at, value] : values) f[at] = value;
    return f;
}
FeatureCounts counts(const std::map<std::size_t, double>& values) {
    return {features(values).values};
}

Workload layers(int count) {
    Workload w = small_gpt().workload;
    w.layers = count;
    return w;
}

PipelineKey two_stages(int micro_batches) {
    PipelineKey key;
    key.pp = 2;
    key.micro_batches = micro_batches;
    return key;
}

// The longest path to the end of each stage's slots.
std::vector<PipelinePath> paths_of(const PipelineKey& key, const Workload& w,
                                   const FeatureTimes& times) {
    std::vector<std::vector<int>> stages;
    for (int s = 0; s < key.pp; ++s) stages.push_back({s});
    const TimesOfDirection direction{times, {}};
    return longest_paths(key, w, stages, std::span(&direction, 1)).front();
}

std::vector<double> ends_of(const PipelineKey& key, const Workload& w, const FeatureTimes& times) {
    const SlotGraph slots = slot_graph(key, w);
    SlotTimes run(key, slots);
    const TimesOfDirection direction{times, {}};
    run.run(std::span(&direction, 1));
    std::vector<double> ends(static_cast<std::size_t>(key.pp));
    for (std::size_t i = 0; i < slots.nodes.size(); ++i)
        ends[static_cast<std::size_t>(slots.nodes[i].stage)] = run.end(static_cast<int>(i), 0);
    return ends;
}

// Forward and backward: a layer takes 3 and 7, the embedding 1 and 2, the head 5 and 6.
const FeatureTimes eighths = features({{of(UnitKind::dense, path_forward), 3},
                                       {of(UnitKind::dense, path_backward), 7},
                                       {of(UnitKind::embedding, path_forward), 1},
                                       {of(UnitKind::embedding, path_backward), 2},
                                       {of(UnitKind::head, path_forward), 5},
                                       {of(UnitKind::head, path_backward), 6},
                                       {feature::opened, 0.5},
                                       {feature::filling, 0.25},
                                       {feature::filled, 0.125},
                                       {feature::send_near, 2},
                                       {feature::arrival, 0.5},
                                       {feature::entry, 0.25}});

}  // namespace

// Two stages of one layer, two micro-batches: F0 F1 B0 B1 and F0 B0 F1 B1. `opened` is subtracted
// in a forward and waited for after it. Each backward recomputes its layer, here in no time:
//   stage 0   F0 3.5 (sent 5.5)   F1 3.5 + 0.5 + 3.5 = 7.5 (9.5)
//   stage 1   F0 5.5 + 0.5 + 0.25 + 7.5 = 13.75   B0 + 0.5 + 13.25 = 27.5 (29.5)   F1 + 0.125 +
//   0.25 + 7.5 = 35.375   B1 49.125 (51.125) stage 0   B0 29.5 + 0.75 + 9.25 = 39.5   B1 51.125 +
//   0.75 + 9.25 = 61.125
TEST_CASE("a path of 1F1B goes back through sends and slots as they waited for each other") {
    const PipelineKey key = two_stages(2);
    const Workload w = layers(2);
    CHECK(ends_of(key, w, eighths) == std::vector<double>{61.125, 49.125});
    const std::vector<PipelinePath> paths = paths_of(key, w, eighths);
    CHECK_FALSE(paths[0].by_host);
    CHECK(paths[0].round == FeatureCounts{});
    CHECK(paths[0].once == counts({{of(UnitKind::dense, path_forward), 3},
                                   {of(UnitKind::dense, path_backward), 3},
                                   {of(UnitKind::embedding, path_forward), 1},
                                   {of(UnitKind::embedding, path_backward), 1},
                                   {of(UnitKind::head, path_forward), 2},
                                   {of(UnitKind::head, path_backward), 2},
                                   {feature::opened, -3 + 2},
                                   {feature::filling, 3},
                                   {feature::filled, 1},
                                   {feature::send_near, 2},
                                   {feature::arrival, 2},
                                   {feature::entry, 3},
                                   {feature::again(UnitKind::dense), 3}}));
    CHECK(length_of(paths[1].once, eighths) == 49.125);
}

// The stage waits for its own sends (ends of sends in parentheses): F1 5.5 + 3.5 = 9 (11); stage 1:
// F1 29.5 + 0.25 + 7.5 = 37.25, B1 51 (53); stage 0: B1 53 + 0.75 + 9.25 = 63.
TEST_CASE("sends that are not overlapped stand between the slots of a stage") {
    PipelineKey key = two_stages(2);
    key.overlap_p2p = false;
    CHECK(ends_of(key, layers(2), eighths) == std::vector<double>{63, 51});
    const FeatureCounts once = paths_of(key, layers(2), eighths)[0].once;
    CHECK(length_of(once, eighths) == 63);
    CHECK(once[feature::send_near] == 3);
    CHECK(once[feature::filled] == 0);
}

// Issuing a layer's forward takes 100: F1 of stage 0 ends at 200. The send, F1 and B1 on stage 1,
// the send back and B1 take 36 more.
TEST_CASE("a path begins with what a host issues where that is late") {
    FeatureTimes times = eighths;
    times[feature::host(UnitKind::dense, path_forward)] = 100;
    times[feature::host(UnitKind::dense, path_backward)] = 10;
    CHECK(ends_of(two_stages(2), layers(2), times) == std::vector<double>{236, 224});
    const PipelinePath path = paths_of(two_stages(2), layers(2), times)[0];
    CHECK(path.by_host);
    CHECK(path.once == counts({{feature::host(UnitKind::dense, path_forward), 2},
                               {of(UnitKind::dense, path_forward), 1},
                               {of(UnitKind::dense, path_backward), 2},
                               {of(UnitKind::embedding, path_backward), 1},
                               {of(UnitKind::head, path_forward), 1},
                               {of(UnitKind::head, path_backward), 1},
                               {feature::filling, 2},
                               {feature::send_near, 2},
                               {feature::arrival, 2},
                               {feature::entry, 2},
                               {feature::again(UnitKind::dense), 2}}));
}

// (m + p - 1)(F + B) with free sends: p more micro-batches add p forwards and p backwards, on
// whichever stages the path runs. A host that is slower than its device issues p of each.
TEST_CASE("a round of 1F1B is as many forwards and backwards as there are stages") {
    for (const int stages : {2, 3, 4}) {
        PipelineKey key;
        key.pp = stages;
        key.micro_batches = rounds_of(key.schedule, stages, 100).least;
        FeatureTimes times = features(
            {{of(UnitKind::dense, path_forward), 3}, {of(UnitKind::dense, path_backward), 7}});
        const Workload w = layers(2 * stages);
        for (const PipelinePath& path : paths_of(key, w, times)) {
            CHECK(path.round[of(UnitKind::dense, path_forward)] == 2 * stages);
            CHECK(path.round[of(UnitKind::dense, path_backward)] == 2 * stages);
        }
        CHECK(length_of(paths_of(key, w, times)[0].once, times) ==
              2 * 10 * (key.micro_batches + stages - 1));
        times[feature::host(UnitKind::dense, path_forward)] = 31;
        times[feature::host(UnitKind::dense, path_backward)] = 37;
        const PipelinePath issued = paths_of(key, w, times)[0];
        CHECK(issued.by_host);
        CHECK(issued.round == counts({{feature::host(UnitKind::dense, path_forward), 2 * stages},
                                      {feature::host(UnitKind::dense, path_backward), 2 * stages},
                                      {feature::host_again(UnitKind::dense), 2 * stages}}));
    }
}

// Three layers per stage: each stage's last backward fills the buckets of its layers, two of them
// inside the backward. With two chunks per stage, part of the exchange runs beside the next slot of
// the stage.
TEST_CASE("the last gradients of a chunk are marked on a path") {
    const FeatureCounts once = paths_of(two_stages(2), layers(6), eighths)[0].once;
    CHECK(once[feature::inside_last] == 2 + 2);
    CHECK(once[feature::after_last] == 0);
    PipelineKey key = two_stages(2);
    key.chunks = 2;
    const FeatureTimes times =
        features({{of(UnitKind::dense, path_forward), 3}, {of(UnitKind::dense, path_backward), 7}});
    CHECK(paths_of(key, layers(12), times)[0].once[feature::after_last] > 0);
}

// Four stages of two layers, 3 forward and 7 backward each, sends free: whether the last backwards
// go on through the stages or all micro-batches' backwards through one, a drain takes as long.
// Where each last backward takes 2 longer for the gradients beside its second layer, the way
// through the stages is longer by 2 for each that it meets: all four.
TEST_CASE("a path goes through the last backwards of all stages where gradients slow these") {
    PipelineKey key;
    key.pp = 4;
    key.micro_batches = 8;
    const Workload w = layers(8);
    FeatureTimes times =
        features({{of(UnitKind::dense, path_forward), 3}, {of(UnitKind::dense, path_backward), 7}});
    const double plain = 2 * 10 * (8 + 4 - 1);
    CHECK(ends_of(key, w, times)[0] == plain);
    times[feature::inside_last] = 2;
    CHECK(ends_of(key, w, times)[0] == plain + 4 * 2);
    CHECK(paths_of(key, w, times)[0].once[feature::inside_last] == 4);
}

// For any times a path takes as long as its slots' ends say, and with further rounds at most as
// long as the pipeline with these rounds. For plain 1F1B it comes within 3 % of that.
TEST_CASE("a path takes what its stage takes, and its rounds no more than a longer pipeline") {
    std::mt19937 random(3);
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_h1,
                                    Schedule::zb_v, Schedule::dualpipe})
        for (const int chunks : {1, 2})
            for (int trial = 0; trial < 6; ++trial) {
                const bool two = schedule == Schedule::zb_v || schedule == Schedule::dualpipe;
                if (chunks == 2 ? schedule != Schedule::one_f_one_b && !two : two) continue;
                PipelineKey key;
                key.schedule = schedule;
                key.chunks = chunks;
                key.pp = schedule == Schedule::dualpipe ? 4 : 2 + trial % 3;
                key.overlap_p2p = trial % 2 == 0;
                key.node = trial % 3;
                key.stride = key.node > 0 ? 1 : 0;
                const Rounds rounds = rounds_of(schedule, key.pp, 60);
                key.micro_batches = rounds.least;
                const Workload w = layers(3 * chunks * key.pp + trial);
                FeatureTimes times{};
                for (double& time : times.values) time = 1 + static_cast<double>(random() % 64) / 8;
                times[feature::opened] = 0;
                if (trial < 3)
                    std::fill(times.values.begin() + feature::hosts, times.values.end(), 0.0);
                CAPTURE(static_cast<int>(schedule), key.pp, chunks, trial);
                const std::vector<PipelinePath> paths = paths_of(key, w, times);
                const std::vector<double> ends = ends_of(key, w, times);
                PipelineKey longer = key;
                longer.micro_batches += 2 * rounds.round;
                const std::vector<double> later =
                    rounds.count > 1 ? ends_of(longer, w, times) : ends;
                for (std::size_t s = 0; s < ends.size(); ++s) {
                    CHECK(length_of(paths[s].once, times) == Approx(ends[s]));
                    const double extended =
                        length_of(paths[s].once, times) + 2 * length_of(paths[s].round, times);
                    CHECK(extended <= later[s] * (1 + 1e-12));
                    if (schedule == Schedule::one_f_one_b && chunks == 1)
                        CHECK(extended >= 0.97 * later[s]);
                }
            }
}

// Stage 0 has the embedding with layer 0, and layer 2; stage 1 has layer 1, and layer 3 with the
// logits. A forward goes on where layers with experts meet, no end of the model between them.
TEST_CASE("a forward goes on behind a forward of its stage where experts meet experts") {
    Workload w = layers(4);
    w.moe.experts = 8;
    w.moe.top_k = 2;
    PipelineKey key = two_stages(4);
    key.chunks = 2;
    const SlotGraph slots = slot_graph(key, w);
    int met = 0;
    for (const SlotNode& n : slots.nodes) {
        if (n.before < 0) continue;
        const SlotNode& before = slots.node(n.before);
        const bool forwards = n.pass == path_forward && before.pass == path_forward,
                   embedding = n.stage == 0 && n.chunk % 2 == 0,
                   logits = before.stage == 1 && before.chunk % 2 == 1;
        CHECK(n.goes_on == (forwards && !embedding && !logits));
        met += n.goes_on;
    }
    CHECK(met >= 3);
}
