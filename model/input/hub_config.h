// Reads a Hugging Face config.json as a workload, by the rules of model/presets/hub.toml.
#pragma once

#include <optional>
#include <string>

#include "model/input/families.h"

namespace stepcast {

// Shapes and architecture of the file. The sequence length is left to the experiment unless
// positions are learned, because the file states only the longest context. Defaults that it does
// not state: flash attention and adam. Throws ConfigError with file and key: unreadable, not JSON,
// a model type without a rule, or a missing or misplaced value.
HubConfig read_hub_config(const std::string& path);

std::optional<NamedTextPart> text_part_without_sizes(const std::string& path);

}  // namespace stepcast
