// What a datasheet says of a machine, apart from what only measurements say.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/cluster.h"
#include "model/input/toml_reader.h"

namespace stepcast {

// True if a key ("cluster.gpu.sms") belongs to the datasheet and not to measurements.
bool is_nameplate(std::string_view key);

// The lines of a cluster file that its datasheet states, without tables. `prefix` is what its keys
// omit: "cluster.", or "" in an experiment.
TomlFile nameplate_of(TomlFile file, const std::string& prefix);

// The datasheet of a machine whose file states rates of a GPU, but not what products, memory and
// links reach of them: it was not measured, and measured machines show the rest
// (measured/priors.h). Nothing for a file that states all of these, or no GPU.
std::optional<Cluster> unmeasured_machine(const TomlFile& file, const std::string& prefix);

}  // namespace stepcast
