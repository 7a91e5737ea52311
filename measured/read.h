// Reads experiments and machines whole: what files state and, below that, what measured machines
// show of one that nobody measured.
#pragma once

#include <span>
#include <string>

#include "model/experiment.h"
#include "model/input/layers.h"

namespace stepcast {

// Applies overrides in order (a value may be quoted or bare), checks every cross rule. ConfigError:
// file:line:column, key, found, expected.
Experiment read_experiment(const ExperimentSource& source,
                           std::span<const Override> overrides = {});

// The same without the cross rules, for sweeps: the split that a sweep starts from need not be
// legal.
Experiment read_unchecked_experiment(const ExperimentSource& source,
                                     std::span<const Override> overrides = {});
Cluster read_cluster(const std::string& path_or_preset);

// Every layer of an experiment, without checks.
Layers whole_experiment(const ExperimentSource& source, std::span<const Override> overrides);
// A cluster file's.
Layers whole_cluster(const std::string& path);

// Sets one key of an experiment that was already read, with the same checks of key, unit and range.
// Used by fits and what-ifs; call check_experiment() afterwards.
void set_key(Experiment& experiment, const Override& override);

}  // namespace stepcast
