// The bounds keep what they priced for one base of a sweep, and look it up by the keys that declare
// the part of a step that it is of. A key that changes a part and does not declare it would give
// the price of another split in silence; one that declares what it does not change would split what
// is shared. So every key is changed here, by name from the table of keys.

#include <map>
#include <set>
#include <tuple>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/step.h"
#include "sim/bounds/bounds.h"
#include "sim/engine/simulate.h"
#include "sim/memory/transformer_memory.h"
#include "tests/random_experiments.h"
#include "tests/simulated.h"

using namespace stepcast;

namespace {

// Values that fit keys of any kind; set_key() refuses the others.
std::vector<std::string> values_for(const Key& key) {
    std::vector<std::string> values{
        "true",        "false",       "0",           "1",          "2",
        "3",           "4",           "8",           "0.5",        "1.25",
        "3",           "2 kB",        "1 MB",        "[2, 2]",     "[1, 3]",
        "[1, 1, 2]",   "[1, 2, 1]",   "[\"norms\"]", "[mlp, moe]", "[layernorm, moe_act]",
        "tp-cp-pp-dp", "pp-tp-cp-dp", "fp32",        "bf16"};
    for (const std::string_view name : key.type->names) values.emplace_back(name);
    return values;
}

// The keys of the split: those whose change leaves workload and machine as they are, so that one
// base of a sweep holds both values.
std::vector<const Key*> keys_of_splits() {
    std::vector<const Key*> found;
    for (const Key& key : all_keys())
        if (!is_preset(key) && !key.type->row_keys &&
            (key.path.starts_with("parallelism.") || key.path.starts_with("runtime.exchanges.")))
            found.push_back(&key);
    return found;
}

// Another split of the same ranks; nothing if it is none that the bounds are asked for.
std::optional<Experiment> changed(const Experiment& base, const Key& key,
                                  const std::string& value) {
    Experiment e = base;
    Parallelism& p = e.parallelism;
    try {
        set_key(e, {std::string(key.path), value});
        const int split = p.tp * p.pp * p.cp, ranks = rank_count(e.cluster);
        if (key.path != "parallelism.dp" && ranks % split == 0) p.dp = ranks / split;
        check_experiment(e);
    } catch (const ConfigError&) {
        return std::nullopt;
    }
    const bool other = plan_of(e) != plan_of(base) && micro_batches(p) <= 64;
    return other && StepBounds::cover(e) ? std::optional(e) : std::nullopt;
}

// The parts of a split's step as the bounds compute them, and the most that a rank holds.
struct Parts {
    RankGroups ranks;
    BoundShape shape;
    PipelineKey pipeline;
    int rounds = 0;        // of micro-batches, beyond those of the pipeline's key
    bool repeats = false;  // whether its slots run layers again
    Bytes memory;
    Seconds step;  // of the engine
};
Parts parts_of(const Experiment& e, OpPrices& prices) {
    const RankGroups ranks = rank_groups(e);
    Experiment shaped = e;
    BoundShape shape = bound_shape(shaped, routing_of(e));
    add_times(shape, shaped, prices);
    return {ranks,
            std::move(shape),
            pipeline_key(e, ranks),
            rounds_of(e.parallelism).count,
            recomputes_layers(e.parallelism),
            transformer_memory(e).peak,
            engine_step(e)};
}
bool is_same_shape(const BoundShape& a, const BoundShape& b) {
    const auto times = [](const BoundShape& s) {
        return std::tie(s.lower, s.estimate, s.computing, s.alone, s.lead, s.rest, s.gather,
                        s.waits, s.turns.slowed, s.turns.exchanging, s.turns.waiting);
    };
    return a.shape == b.shape && times(a) == times(b);
}

// What differs. A pipeline follows from its ranks, all that is left from these and the shape.
struct Differing {
    bool ranks, shape, pipeline, memory;
    bool only_pipeline;  // and not the ranks
    // sends, data parallelism or what overlaps: the step, though no other part does
    bool only_rest;
};
Differing differing(const Parts& a, const Parts& b) {
    const bool ranks = a.ranks != b.ranks, shape = !is_same_shape(a.shape, b.shape),
               pipeline =
                   a.pipeline != b.pipeline || a.rounds != b.rounds || a.repeats != b.repeats;
    return {ranks,
            shape,
            pipeline,
            a.memory != b.memory,
            pipeline && !ranks,
            a.step != b.step && !ranks && !shape && !pipeline};
}

// What changing one key of many splits found, by key.
struct Tried {
    int splits = 0;
    // in which these differ
    int ranks = 0, shape = 0, pipeline = 0, memory = 0, only_pipeline = 0, only_rest = 0;
    int other_steps = 0;   // in which the engine's step changed
    int stale = 0;         // in which kept bounds are not fresh ones
    int below_bounds = 0;  // in which the engine's step is below the lower bound
};

// From the base to each changed split and back, the kept bounds say what fresh ones say.
void change_every_key(const Experiment& base, std::map<std::string_view, Tried>& tried) {
    StepBounds kept(base);
    const StepBound of_base = kept(plan_of(base));
    OpPrices prices(base.cluster);
    const Parts parts = parts_of(base, prices);
    for (const Key* key : keys_of_splits())
        for (const std::string& value : values_for(*key)) {
            const auto e = changed(base, *key, value);
            if (!e) continue;
            const StepBound found = kept(plan_of(*e));
            StepBounds fresh(base);
            const bool stale = found != fresh(plan_of(*e)) || kept(plan_of(base)) != of_base;
            const Parts others = parts_of(*e, prices);
            const Seconds other = others.step;
            const Differing parts_differ = differing(parts, others);
            Tried& of_key = tried[key->path];
            ++of_key.splits;
            of_key.ranks += parts_differ.ranks;
            of_key.shape += parts_differ.shape;
            of_key.pipeline += parts_differ.pipeline;
            of_key.memory += parts_differ.memory;
            of_key.only_pipeline += parts_differ.only_pipeline;
            of_key.only_rest += parts_differ.only_rest;
            of_key.other_steps += other != parts.step;
            of_key.stale += stale;
            of_key.below_bounds += found.lower > other * (1 + 1e-9);
        }
}

}  // namespace

// cover() refuses other values of these, but of dp, which follows from the ranks that are left.
const std::set<std::string_view> without_effect{
    "parallelism.dp", "parallelism.cut", "parallelism.head_apart", "parallelism.overlap_chunks",
    "parallelism.moe_system"};

// What some keys need to have an effect: tied embeddings, operators that a library may compose,
// passes that run operation by operation.
static void add_what_keys_need(std::uint64_t seed, Experiment& e) {
    e.workload.tied = seed % 2 == 0;
    if (seed % 3 == 0) e.workload.norm = Norm::rmsnorm;
    e.runtime.kernels = seed % 4 == 0 ? KernelStyle::eager : KernelStyle::fused;
    e.runtime.gradients.fused_accumulation = seed % 5 != 0;
}

// The parts of a step that keys declare are those that they change, each way.
static void check_declared(const Key& key, const Tried& found) {
    const auto declares = [&](Affects part) { return key.affects.has(part); };
    CHECK(declares(Affects::ranks) == (found.ranks > 0));
    CHECK(declares(Affects::shape) == (found.shape > 0));
    CHECK((found.pipeline > 0 || !declares(Affects::pipeline)));
    CHECK((found.only_pipeline == 0 || declares(Affects::pipeline)));
    CHECK(declares(Affects::memory) == (found.memory > 0));
    CHECK((declares(Affects::sends) || declares(Affects::data) || declares(Affects::overlap)) ==
          (found.only_rest > 0));
}

TEST_CASE("bounds that were kept for a split are not those of a split that differs in any key") {
    std::map<std::string_view, Tried> tried;
    int bases = 0;
    for (std::uint64_t seed = 1; bases < 60; ++seed) {
        Experiment base = random_experiment(seed);
        add_what_keys_need(seed, base);
        if (!StepBounds::cover(base)) continue;
        CAPTURE(seed);
        ++bases;
        change_every_key(base, tried);
    }
    for (const Key* key : keys_of_splits()) {
        const Tried& of_key = tried[key->path];
        CAPTURE(key->path, of_key.splits, of_key.other_steps);
        CHECK(of_key.stale == 0);
        CHECK(of_key.below_bounds == 0);
        CHECK((of_key.other_steps > 0) != without_effect.contains(key->path));
        if (!without_effect.contains(key->path)) check_declared(*key, of_key);
    }
}
