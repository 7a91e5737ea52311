// Reads cluster files over their bases, and writes them with their evidence.
#pragma once

#include <optional>
#include <string>

#include "model/cluster.h"
#include "model/experiment.h"
#include "model/input/layers.h"
#include "model/input/toml_reader.h"

namespace stepcast {

// A cluster file as TOML text, which read_cluster() reads back to an equal value. Its [fitted]
// table states for each parameter the prior, the error, and whether the data determined it.
std::string write_cluster(const Cluster& cluster);

// without fitted constants; these are then taken from similar machines
std::string write_nameplate(const Cluster& cluster);

// in order: the file that it starts from, its nameplate, its [fitted]
void lay_cluster(Layers& layers, const std::string& path);

// lay_file() for a file that may have a [fitted] table: lays the fitted values over the others and
// returns the table.
std::optional<Fitted> lay_fitted_file(Layers& layers, TomlFile file, const std::string& prefix);

// The text of such a file: the values as they were before the fit, and the [fitted] table.
std::string file_text(Experiment holder, const std::string& prefix,
                      const std::optional<Fitted>& fitted);

// the [fitted] table as in a file; "" if not fitted
std::string fitted_text(const Cluster& cluster);

}  // namespace stepcast
