// Pipelines for the closed forms: the longest paths through the slots of all stages, as counts of
// what lies on them, and the moments at which a stage holds the most. Searched once for a schedule
// with its stages and micro-batches; any times and sizes can then be put in.
#pragma once

#include <span>
#include <vector>

#include "model/base/numbers.h"
#include "model/rank_groups.h"
#include "sim/bounds/shape.h"

namespace stepcast {

constexpr std::size_t at(int i) { return as_index(i); }

struct PipelineKey {
    Schedule schedule = Schedule::one_f_one_b;
    int pp = 1, chunks = 1, micro_batches = 1;
    int recompute_layers = 0;
    bool overlap_p2p = true, overlap_experts = false;
    // Ranks of a node, and the rank distance of neighbouring stages, if only some neighbours share
    // a node; else 0.
    int node = 0, stride = 0;
    std::vector<int> stage_layers;
    friend auto operator<=>(const PipelineKey&, const PipelineKey&) = default;
};

// What decides the pipeline of this split. The only of a split's values that a pipeline is found
// by.
PipelineKey pipeline_key(const Experiment& experiment, const RankGroups& groups);

// Whether stages `stage` and `stage` + 1 share a node; true where all links are alike.
bool near_link(const PipelineKey& key, int stage);

// A path through the slots for the micro-batches of the key (`once`), and what each further round
// of micro-batches adds to it (`round`).
struct PipelinePath {
    FeatureCounts once{}, round{};
    FeatureCounts turns_once{}, turns_round{};  // slots that go by turns (sim/bounds/turns.h)
    bool through_pairs = false;  // from stage to stage, through slots that go by turns
    bool by_host = false;        // begins with the issue of the host, not with the first slot
};

constexpr int all_layers(const UnitCounts& units) { return units[0] + units[1]; }
constexpr int all_ends(const UnitCounts& units) {
    return units[at(UnitKind::embedding)] + units[at(UnitKind::head)];
}

// Stages that hold the same ends of the model and whose orders end alike.
struct StageGroup {
    std::vector<int> stages;
    // for each kind, the fewest of any stage; the units of the fullest stage
    UnitCounts fewest{}, most{};
    // Split backwards: how many weight-gradient slots in a row end the order of a stage, the fewest
    // of any stage.
    int last_weights = 0;
};
// The longest paths to the end of the slots of a group.
struct GroupPaths {
    std::vector<PipelinePath> paths, sharded;  // the latter with the collectives of zero 3
};

// What a stage holds while a slot runs: numbers of chunks, by what they hold and then by kind. They
// hold in this order: all until their backward; what only the weight gradients need; what a whole
// backward or one half of it holds while it runs (one chunk, or none).
using MemoryMoment = std::vector<int>;
struct MemoryStage {
    UnitCounts units;  // both copies under dualpipe
    // Its moments one behind the other, without those that another covers: Pipeline::held numbers
    // of each, and what runs, as a place in MemoryMoment, or -1.
    std::vector<double> held;
    std::vector<int> runs;
};

// A chain of slots through a stage (sim/bounds/chains.h): passes of units, recomputed layers among
// them, for the micro-batches of the key (`once`), and what each further round adds.
// `gathered`: how often the stage gathers each kind of unit under zero 3, and `ahead` of these in
// slots whose gathers may begin before the stage does.
struct StageChain {
    FeatureCounts once{}, round{};
    UnitCounts gathered{}, gathered_round{}, ahead{};
};

struct Pipeline {
    std::vector<Chunk> kinds;         // one of each set of chunks that hold the same
    std::vector<MemoryStage> memory;  // the stages that can be the fullest
    // The first numbers of a moment, behind which none is held: those of weight gradients only
    // where a schedule puts these off.
    std::size_t held = 0;
    std::vector<StageChain> chains;
    std::vector<StageGroup> groups;
    UnitCounts model{};      // of one copy
    int shortest_chunk = 0;  // layers
};

// Micro-batches as `least` + `count` * `round`: beyond `least`, a pipeline repeats every `round`
// micro-batches.
struct Rounds {
    int least = 0, count = 0, round = 1;
};
Rounds rounds_of(Schedule schedule, int pp, int micro_batches);
inline Rounds rounds_of(const Parallelism& p) {
    return rounds_of(p.schedule, p.pp, micro_batches(p));
}

// Typical times of the features (any scale), and of what passes by turns count.
struct TimesOfDirection {
    FeatureTimes times{}, turns{};
};
// Those from index `sharded` on include the collectives of zero 3.
struct Directions {
    std::vector<TimesOfDirection> times;
    std::size_t sharded = 0;
};

Pipeline find_pipeline(const PipelineKey& key, const Workload& workload);
// For each group, the longest path under each of the directions. The key's micro-batches must be
// `least` of rounds_of().
std::vector<GroupPaths> find_paths(const PipelineKey& key, const Workload& workload,
                                   const std::vector<StageGroup>& groups,
                                   const Directions& directions);

// A Parallelism with the values of the key, for functions such as chunks_of().
Parallelism parallelism_of(const PipelineKey& key);

}  // namespace stepcast
