// The bounds keep what they priced for one base of a sweep. A key that changes a step and not what
// they look it up by would give the price of another split in silence. So every key is changed
// here, by name from the table of keys.

#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/step.h"
#include "sim/bounds/bounds.h"
#include "sim/engine/simulate.h"
#include "tests/random_experiments.h"

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

Seconds simulated_step(const Experiment& e) {
    const TaskGraph graph = build_step(e, routing_of(e));
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    return timeline.end;
}

// What changing one key of many splits found, by key.
struct Tried {
    int splits = 0;
    int other_steps = 0;   // in which the engine's step changed
    int stale = 0;         // in which kept bounds are not fresh ones
    int below_bounds = 0;  // in which the engine's step is below the lower bound
};

// From the base to each changed split and back, the kept bounds say what fresh ones say.
void change_every_key(const Experiment& base, std::map<std::string_view, Tried>& tried) {
    StepBounds kept(base);
    const StepBound of_base = kept(plan_of(base));
    const Seconds step = simulated_step(base);
    for (const Key* key : keys_of_splits())
        for (const std::string& value : values_for(*key)) {
            const auto e = changed(base, *key, value);
            if (!e) continue;
            const StepBound found = kept(plan_of(*e));
            StepBounds fresh(base);
            const bool stale = found != fresh(plan_of(*e)) || kept(plan_of(base)) != of_base;
            const Seconds other = simulated_step(*e);
            Tried& of_key = tried[key->path];
            ++of_key.splits;
            of_key.other_steps += other != step;
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
    }
}
