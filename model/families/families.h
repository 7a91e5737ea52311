// The architecture that a model's name stands for: one TOML file a family (model/presets/families/), which cases, a hub's
// config.json and workload presets start from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/workload.h"

namespace stepcast {

// Everything of a Workload but its sizes. Where `architecture.ffn` is set, the ffn that tables state is the width of one
// expert and this one that of the dense layers.
struct ModelFamily {
    Workload architecture;
    KEY(double, blocks_a_layer, 1, "of the layers that tables state, those that one layer of the workload stands for");
    KEY(std::string, about, {}, "\"gated feed-forward, rmsnorm, rotary positions, untied, no biases\"");
    KEY(std::string, not_modelled, {}, "or why its layers have no model");
    KEY(std::vector<std::string>, models, {}, "how names begin, in lower case");
    KEY(std::vector<std::string>, hub, {}, "`model_type` of config.json");
};

std::vector<ModelFamily> read_families();

// By the longest beginning of the name, in either case ("llama3.1-405b"); `words`: "llama: gated feed-forward, ..". Throws
// ConfigError for a family that is not known, or whose layers have no model.
const ModelFamily& family_of(std::string_view model, const std::vector<ModelFamily>& families, std::string* words = nullptr);

// A model's config.json, as model hubs publish it next to the weights, as a workload.
struct HubConfig {
    Workload workload;
    std::vector<std::string> notes;  // what is read with a reservation
};

// Shapes and architecture of the file. Its sequence is left to the experiment where positions are not learned, since the
// file states the longest context only. What it does not say: flash attention, the optimizer is adam. Throws ConfigError
// with the file and key: unreadable, no JSON, a model type without a rule, a missing or misplaced value.
HubConfig read_hub_config(const std::string& path);

}  // namespace stepcast
