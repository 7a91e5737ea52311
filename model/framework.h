// A training framework: an overlay of [runtime] and of a few keys beside it, what it can run, and
// what its users mean where they state nothing. It is data (model/presets/frameworks/); docs/
// calibrate.md describes its files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/parallelism.h"
#include "model/runtime.h"

namespace stepcast {

// "KEY=VALUE" from the command line, e.g. {"cluster.link.intra.bandwidth", "900 GB/s"}. The table
// may be omitted where only one table has the key: tp for parallelism.tp.
struct Override {
    std::string key, value;
    friend bool operator==(const Override&, const Override&) = default;
};

// Holds where the key has one of the values.
struct Condition {
    std::string key;
    std::vector<std::string> values;
    friend bool operator==(const Condition&, const Condition&) = default;
};
// A key that the framework sets: always, or where all of `when` and none of `unless` hold.
struct FrameworkRule {
    std::vector<Condition> when, unless;
    Override set;
    friend bool operator==(const FrameworkRule&, const FrameworkRule&) = default;
};

// What the framework can run; `sweep --vary parallelism=all` walks nothing else. An empty list
// allows everything. Experts whose split it refuses at its start are refused by every verb
// (check_framework()).
struct FrameworkAbilities {
    KEY(bool, tensor, true, "has tensor parallelism");
    KEY(bool, sequence, true, "has sequence parallelism");
    KEY(bool, experts_without_sequence, true,
        "runs experts on tensor-parallel ranks without sequence parallelism");
    KEY(bool, tensor_without_sequence, true,
        "runs tensor parallelism without sequence parallelism");
    KEY(bool, context, true, "has context parallelism");
    KEY(bool, context_without_shards, true, "runs context parallelism with zero 0");
    KEY(bool, pipeline, true, "has pipelines");
    KEY(bool, interleaved, true, "has 1f1b with several chunks a stage");
    KEY(std::vector<Schedule>, schedules, {}, "its pipeline schedules; empty = all");
    KEY(std::vector<StageLayout>, layouts, {}, "its layouts of stages; empty = all");
    KEY(std::vector<int>, zero, {}, "its ZeRO stages; empty = all");
    KEY(std::vector<int>, pipeline_zero, {}, "those of its pipelines; empty = all that it has");
    KEY(std::vector<Recompute>, recompute, {}, "what it recomputes; empty = all");
    KEY(bool, narrow, true, "multiplies in 8 or 4 bits");
    KEY(bool, odd_heads, true,
        "has fused attention for heads whose width is no multiple of 8 elements");
    KEY(std::vector<std::string>, switches, {},
        "what its scripts can switch beside the parallel layout, as KEY=VALUE|VALUE: sweep --vary "
        "parallelism=all walks them");
    friend bool operator==(const FrameworkAbilities&, const FrameworkAbilities&) = default;
};

// What its users mean where an experiment or a row of a table states nothing.
struct UnstatedMeans {
    KEY(std::optional<bool>, tied, {},
        "false: models with learned positions that do not say it share no weights between "
        "embedding and logits");
    KEY(std::optional<Recompute>, recompute, {},
        "recompute of a case that does not state it; empty: the least that fits");
    KEY(bool, chunks, false, "cases that do not state vp: stages hold several chunks");
    KEY(bool, balanced_stages, false,
        "cases: stages hold layers of equal GEMMs, those of the logits counted");
    KEY(int, mean_sequence, 0, "cases: tokens of a padded sequence in the mean; 0 = all are full",
        0, upto::tokens);
    KEY(std::vector<std::string>, switches, {},
        "cases: what some of its users switch, each as KEY=VALUE with what follows from it, as in "
        "\"KEY=VALUE, KEY=VALUE\": the interval covers it where a case does not state the first");
    friend bool operator==(const UnstatedMeans&, const UnstatedMeans&) = default;
};

struct Framework {
    // empty: no framework, the experiment sets every key
    KEY(std::string, name, {}, "name in reports");
    KEY(std::string, about, {}, "what it stands for, in reports");
    KEY(std::vector<std::string>, may_be, {},
        "other frameworks that it may stand for: the interval covers them too");
    KEY(std::string, script, {}, "format of --emit whose flags --levers names for it");
    KEY(FrameworkAbilities, can, {}, "");
    KEY(UnstatedMeans, unstated, {}, "");
    // Those that always hold first, by key. Of two that hold for a key, the last one sets it.
    std::vector<FrameworkRule> rules;
    std::optional<Fitted> fitted;
    friend bool operator==(const Framework&, const Framework&) = default;
};

// Used if nobody names a framework.
inline constexpr std::string_view default_framework = "default";

// A file, or a preset by name. Throws ConfigError with file:line:column, or with the known names
// and how to write a new one.
Framework read_framework(const std::string& path_or_preset);
// TOML text that read_framework() reads back to an equal value.
std::string write_framework(const Framework& framework);

// Whether a framework may set the key: those of [runtime], host costs, the training rate of links,
// and four keys of the workload.
bool may_be_ruled(std::string_view key);
// The value that the framework sets the key to in every step; nullptr if it sets none.
const std::string* ruled_value(const Framework& framework, std::string_view key);
// Adds a rule without conditions, in place of all earlier ones of the same key.
void set_rule(Framework& framework, const std::string& key, const std::string& value);
// The keys that its rules ask for.
std::vector<std::string_view> condition_keys(const Framework& framework);

struct Experiment;
// False if the framework's fused attention takes no heads of this width: scores go through memory.
bool fuses_heads(const Experiment& e);

// What is needed to apply a framework anew: the keys that the experiment states itself, which
// frameworks leave alone, and the values below those that the framework set.
struct Overlay {
    std::vector<std::string> stated;
    std::vector<Override> under;
    bool asks_latent = false;  // by the older workload.attention = mla
    friend bool operator==(const Overlay&, const Overlay&) = default;
};

// Puts back what lies under the framework, then sets every key that a rule names, a step of this
// workload reads and the experiment does not state. Sets nothing if the framework has no name.
// Idempotent.
void apply_framework(Experiment& experiment);
void put_back_framework(Experiment& experiment);
bool is_stated(const Experiment& experiment, std::string_view key);
// The keys that the experiment states and its framework would set otherwise, with what it would
// set.
std::vector<Override> outvoted(const Experiment& experiment);

}  // namespace stepcast
