// Pipelines for the closed forms: which path through the slots of all stages is the longest, as counts of what is on it,
// and which moments of a stage's order hold the most. Found once for a schedule, its stages and micro-batches; any times
// and sizes can then be put in.
#pragma once

#include <span>
#include <vector>

#include "sim/bounds/shape.h"

namespace stepcast {

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

struct PipelineKey {
    Schedule schedule = Schedule::one_f_one_b;
    int pp = 1, chunks = 1, micro_batches = 1;
    int recompute_layers = 0;
    bool overlap_p2p = true;
    // Ranks of a node, and from a stage to the next, where only some neighbours share a node; else 0.
    int node = 0, stride = 0;
    std::vector<int> stage_layers;
    friend auto operator<=>(const PipelineKey&, const PipelineKey&) = default;
};

// Between stages i and i + 1, by whether they share a node; near where all links are alike.
bool near_link(const PipelineKey& key, int stage);

// A path through the slots for the micro-batches of the key, and what each further round of micro-batches adds to it.
struct PipelinePath {
    Features once{}, round{};
    bool by_host = false;  // begins with what a host issues, not with the first slot
};

constexpr int all_layers(const UnitCounts& units) { return units[0] + units[1]; }
constexpr int all_ends(const UnitCounts& units) { return units[at(UnitKind::embedding)] + units[at(UnitKind::head)]; }

// Stages with the same ends of the model that drain alike, and the longest paths to when their slots are done.
struct StageGroup {
    int first_stage = 0;
    UnitCounts fewest{}, most{};  // units of each kind: the fewest of any of its stages; those of its fullest stage
    std::vector<PipelinePath> paths, sharded_paths;  // the latter under the collectives of zero 3
    // Split backwards: slots of weight gradients that end an order, one after the other, of its stage with the fewest.
    int last_weights = 0;
};

// What a stage holds while a slot runs: chunks of each kind, first those whose backward is to come, then those of which
// only the weight gradients are; and what runs back, a kind, or of its halves one: kinds + kind.
struct MemoryMoment {
    std::vector<int> held;
    int backward = -1;  // none while a forward runs; not among `held`
    friend bool operator==(const MemoryMoment&, const MemoryMoment&) = default;
};
struct MemoryStage {
    UnitCounts units;  // both copies under dualpipe
    std::vector<MemoryMoment> moments;  // none holds less than another in every kind
};

struct Pipeline {
    std::vector<StageGroup> groups;
    std::vector<Chunk> kinds;  // of chunks that hold the same, one
    std::vector<MemoryStage> memory;  // stages that can be the fullest
    UnitCounts model{};               // of one copy
    int shortest_chunk = 0;           // layers
};

// Micro-batches from which on a pipeline repeats: m stands for `least` + rounds * `round`.
struct Rounds {
    int least = 0, count = 0, round = 1;
};
Rounds rounds_of(Schedule schedule, int pp, int micro_batches);

// Typical times (any scale), those from `sharded` on with the collectives of zero 3.
struct Directions {
    std::vector<Features> times;
    std::size_t sharded = 0;
};
// The longest path under each of the directions is found. The key's micro-batches are rounds_of()'s.
Pipeline find_pipeline(const PipelineKey& key, const Workload& workload, const Directions& directions);

// The longest path of a pipeline to the end of the slots of each of its groups, for every direction. A round adds the part
// of the path that comes back to the same pass of the same chunk one round of micro-batches later, while every stage is
// between its fill and its drain (there, orders are the same a round later); nothing where a path has no such part.
// Result: [direction][group].
std::vector<std::vector<PipelinePath>> longest_paths(const PipelineKey& key, const Workload& workload,
                                                    std::span<const std::vector<int>> group_stages,
                                                    std::span<const Features> directions);

// A Parallelism with what the key says, for chunks_of() and the like.
Parallelism parallelism_of(const PipelineKey& key);

}  // namespace stepcast
