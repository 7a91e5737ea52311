// A model's config.json, as model hubs publish it next to the weights, as a workload.
#pragma once

#include <string>
#include <vector>

#include "model/workload.h"

namespace stepcast {

struct HubConfig {
    Workload workload;
    std::vector<std::string> notes;  // what is read with a reservation
};

// Shapes and architecture of the file. Its sequence is left to the experiment where positions are not learned, since the
// file states the longest context only. What it does not say: flash attention, the optimizer is adam. Throws ConfigError
// with the file and key: unreadable, no JSON, a model type without a rule, a missing or misplaced value.
HubConfig read_hub_config(const std::string& path);

}  // namespace stepcast
