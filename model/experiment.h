// One experiment file: the workload, its split, the machine and the routing. It is read and checked
// once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/framework.h"
#include "model/parallelism.h"
#include "model/routing.h"
#include "model/runtime.h"
#include "model/workload.h"

namespace stepcast {

// How what layers keep for their backward goes to the host's memory and comes back: on a stream of
// its own beside the passes, or while the host waits.
NAMED_ENUM(ActivationOffload, "a way to move activations", none, overlapped, blocking);

struct Run {
    KEY(int, steps, 20, "measured steps", 1, 1e6);
    KEY(int, warmup, 3, "steps before the measured ones", 0, 1e6);
    KEY(std::uint64_t, seed, 1, "seed of operand values", 0, 9e18);
    KEY(Seconds, timeout, Seconds(60), "longest wait for another rank", 1e-3, 1e6);
    KEY(bool, cuda_graph, false,
        "a step on a CUDA device is captured once and replayed as one CUDA graph");
    KEY(std::string, allocator, {}, "settings of PyTorch's allocator, as PYTORCH_CUDA_ALLOC_CONF");
    KEY(bool, offload_optimizer, false,
        "the host keeps master weights and moments and updates them: gradients go there, weights "
        "come back");
    KEY(bool, paged_optimizer, false,
        "moments are in memory that the driver moves between device and host (bitsandbytes' "
        "paged optimizers): the allocator holds none, and none keeps a step from fitting");
    KEY(bool, offload_parameters, false,
        "zero 3 with the optimizer on the host: the host keeps the weights too, and each unit's "
        "come before they are gathered");
    KEY(ActivationOffload, offload_activations, ActivationOffload::none,
        "what layers keep for their backward, of recomputed ones the input, waits in the host's "
        "memory");
    friend bool operator==(const Run&, const Run&) = default;
};

// The recorded runs that an experiment predicts, and what their logs time. `compare` finds the
// experiment by these.
struct Recorded {
    KEY(std::string, system, {},
        "systems of the recorded runs that this experiment predicts, separated by commas");
    KEY(std::string, model, {}, "their model, as the measurements say");
    KEY(int, steps_from, 0,
        "their first steady step; 0 = the 30th of 100 and more, else the last 70 %", 0, 1e6);
    KEY(std::string, backward, "backward",
        "phases that their backward timer spans, separated by commas");
    KEY(std::string, timed, {},
        "kernels that their layer timer brackets (phase timed.forward), separated by commas");
    friend bool operator==(const Recorded&, const Recorded&) = default;
};

// Another way to read what nobody stated ("recompute not stated: full"), as keys that override the
// experiment's.
struct Reading {
    std::string what;
    std::vector<Override> keys;
    friend bool operator==(const Reading&, const Reading&) = default;
};

struct Experiment {
    // Out of line, else every file that makes or copies one compiles the copies of all tables.
    Experiment();
    Experiment(const Experiment&);
    Experiment(Experiment&&) noexcept;
    Experiment& operator=(const Experiment&);
    Experiment& operator=(Experiment&&) noexcept;
    ~Experiment();

    std::string name;
    Workload workload;
    Parallelism parallelism;
    Runtime runtime;
    Cluster cluster;
    Framework framework;
    Overlay overlay;
    RoutingSpec routing;
    Run run;
    Recorded recorded;
    std::vector<Reading> readings;  // set for rows of tables only; not a key of files
    friend bool operator==(const Experiment&, const Experiment&) = default;
};

// The full key that `word` abbreviates. Throws ConfigError if two tables have it. A word that no
// table has is returned unchanged.
std::string whole_key(const std::string& word);
// Not a key of files: the number of ranks, on whole nodes of the cluster. The number of replicas
// follows unless dp is set too.
inline constexpr std::string_view ranks_key = "cluster.gpus";
Override parse_override(const std::string& text);

// A file ("-": standard input), a preset name, or a workload alone (preset or config.json), for
// which the overrides must name a cluster that the replicas fill. `text` is content without a file,
// such as a translation of another tool's file: `name` then appears in messages and names the
// experiment, and replicas fill the cluster if the text states no dp.
struct ExperimentSource {
    ExperimentSource(const std::string& path_or_preset) : name(path_or_preset) {}
    ExperimentSource(const char* path_or_preset) : name(path_or_preset) {}
    ExperimentSource(const std::string& path, const std::string& content)
        : name(path), text(content) {}
    std::string name;
    std::optional<std::string> text;
};

// Suffix to the path of another tool's file in messages, because the line numbers are those of the
// translated text.
inline constexpr const char* of_translation = ", translated";

// What files and overrides state, without what measured machines show of one that nobody measured:
// for files that state their machine whole, such as those of a run. All others are read by
// read_experiment() and read_cluster() (measured/read.h).
//   overrides  are applied in order; a value may be quoted or bare. Every cross rule is checked
//   throws     ConfigError: file:line:column, key, found, expected
Experiment stated_experiment(const ExperimentSource& source,
                             std::span<const Override> overrides = {});
Cluster stated_cluster(const std::string& path_or_preset);

// The keys that the source and `overrides` state, with values, so that they can be laid over
// another preset of their table (set_varied()). A table of the file that starts from no preset is
// replaced whole: of it only overrides are listed.
std::vector<Override> stated_keys(const ExperimentSource& source,
                                  std::span<const Override> overrides);

// The experiment's own file, and the files that it or an override names.
std::vector<std::string> files_of_experiment(const std::string& path_or_preset,
                                             std::span<const Override> overrides);

// Notes on how a config.json was read: kinds that were guessed, parts that are left out.
std::vector<std::string> notes_of_hub_config(const std::string& path);

// as TOML text with unit
std::string get_key(const Experiment& experiment, const std::string& key);

// One entry per key, for --help and docs: `cluster.host.call`, "time", "5 us", "issue one kernel";
// for named values also their names; for keys of a split, the parts of a step that they change.
struct KeyDoc {
    std::string key, kind, default_value, meaning, values, affects;
};
std::vector<KeyDoc> key_docs();

}  // namespace stepcast
