// One experiment file: what, split how, on what, with which routing. Read once, checked once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/framework.h"
#include "model/parallelism.h"
#include "model/routing.h"
#include "model/workload.h"

namespace stepcast {

struct Run {
    KEY(int, steps, 20, "measured steps", 1, 1e6);
    KEY(int, warmup, 3, "steps before the measured ones", 0, 1e6);
    KEY(std::uint64_t, seed, 1, "seed of operand values", 0, 9e18);
    KEY(Seconds, timeout, Seconds(60), "longest wait for another rank", 1e-3, 1e6);
    KEY(bool, cuda_graph, false, "a step on a CUDA device is captured once and replayed as one CUDA graph");
    friend bool operator==(const Run&, const Run&) = default;
};

// Which recorded runs an experiment predicts, and what their log times: `compare` finds the experiment by these.
struct Recorded {
    KEY(std::string, system, {}, "systems of the recorded runs that this experiment predicts, separated by commas");
    KEY(std::string, model, {}, "their model, as the measurements say");
    KEY(int, steps_from, 0, "their first steady step; 0 = the 30th of 100 and more, else the last 70 %", 0, 1e6);
    KEY(std::string, backward, "backward", "phases that their backward timer spans, separated by commas");
    KEY(std::string, timed, {}, "kernels that their layer timer brackets (phase timed.forward), separated by commas");
    friend bool operator==(const Recorded&, const Recorded&) = default;
};

// "KEY=VALUE" from the command line, e.g. {"cluster.link.intra.bandwidth", "900 GB/s"}. A key may be written without its
// table where one has it: tp for parallelism.tp.
struct Override {
    std::string key, value;
    friend bool operator==(const Override&, const Override&) = default;
};

// Another way to read what nobody stated ("recompute not stated: full"), as keys on top of the experiment.
struct Reading {
    std::string what;
    std::vector<Override> keys;
    friend bool operator==(const Reading&, const Reading&) = default;
};

struct Experiment {
    std::string name;
    Workload workload;
    Parallelism parallelism;
    Cluster cluster;
    Framework framework;
    RoutingSpec routing;
    Run run;
    Recorded recorded;
    std::vector<Reading> readings;  // of rows of tables; no key of files
    friend bool operator==(const Experiment&, const Experiment&) = default;
};

// The whole key that `word` stands for; throws ConfigError when two tables have it. A word of no table stays as it is.
std::string whole_key(const std::string& word);
// Not a key of files: so many ranks, on whole nodes of the cluster; the replicas follow unless dp is set too.
inline constexpr std::string_view ranks_key = "cluster.gpus";
Override parse_override(const std::string& text);

// A file ("-": standard input), a preset by name, or a workload alone (a preset, a model's config.json), whose cluster must be
// among the overrides and whose replicas fill it. Or `text` that is no file, such as what another tool's was translated to: then
// `name` stands in messages and gives the experiment its name, and where the text says no replicas they fill the cluster.
struct ExperimentSource {
    ExperimentSource(const std::string& path_or_preset) : name(path_or_preset) {}
    ExperimentSource(const char* path_or_preset) : name(path_or_preset) {}
    ExperimentSource(const std::string& path, const std::string& content) : name(path), text(content) {}
    std::string name;
    std::optional<std::string> text;
};
// Behind the path of another tool's file in messages: their lines are those of the text, not of that file.
inline constexpr const char* of_translation = ", translated";

// Applies overrides in order (a value may be quoted or bare); checks every cross rule. Throws ConfigError: file:line:column, key,
// found, expected.
Experiment read_experiment(const ExperimentSource& source, std::span<const Override> overrides = {});
// The same without the cross rules: what a sweep starts from, whose own split need not be legal.
Experiment read_unchecked_experiment(const ExperimentSource& source, std::span<const Override> overrides = {});
Cluster read_cluster(const std::string& path_or_preset);

// The single keys that the source and `overrides` state, each with its value. They lie over the preset that their table starts from,
// and over another one in its place (set_varied()). A table of the file that starts from none is replaced whole: only overrides.
std::vector<Override> stated_keys(const ExperimentSource& source, std::span<const Override> overrides);
// Its own file, and those that it or an override names.
std::vector<std::string> files_of_experiment(const std::string& path_or_preset, std::span<const Override> overrides);
// What a config.json is read with: kinds that were guessed, parts that are left out.
std::vector<std::string> notes_of_hub_config(const std::string& path);

// Sets one key of a value already read; the same checks of key, unit and range. Used by fits and what-ifs.
// check_experiment() must follow.
void set_key(Experiment& experiment, const Override& override);
std::string get_key(const Experiment& experiment, const std::string& key);  // as TOML text with unit

// Every cross rule (ranks = dp*tp*pp*cp, experts divide, sizes sane, ..); throws ConfigError.
void check_experiment(const Experiment& experiment);

// One entry a key, for --help and docs: `cluster.host.call`, "time", "5 us", "issue one kernel"; of names those it takes.
struct KeyDoc {
    std::string key, kind, default_value, meaning, values;
};
std::vector<KeyDoc> key_docs();

}  // namespace stepcast
