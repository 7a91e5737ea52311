// The architecture that a model's name implies: one TOML file per family (model/presets/families/).
// Cases, config.json files of model hubs and workload presets start from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/input/layers.h"
#include "model/workload.h"

namespace stepcast {

// Everything of a Workload except sizes. `architecture.ffn`, if set, is the width of dense layers;
// the ffn in tables is then one expert's.
struct ModelFamily {
    Workload architecture;
    KEY(double, blocks_a_layer, 1,
        "of the layers that tables state, those that one layer of the workload stands for");
    KEY(std::string, about, {},
        "\"gated feed-forward, rmsnorm, rotary positions, untied, no biases\"");
    KEY(std::string, not_modelled, {}, "or why its layers have no model");
    KEY(double, masked, 0,
        "share of the positions that are masked, whose logits alone its own code makes; 0 = none",
        0, 1);
    KEY(std::string, unnamed, {}, "\"gated\" or \"two-matrix\": unknown decoders of this shape");
    KEY(std::vector<std::string>, models, {}, "how names begin, in lower case");
    KEY(std::vector<std::string>, hub, {}, "`model_type` of config.json");
};

std::vector<ModelFamily> read_families();

bool knows_family(std::string_view model, const std::vector<ModelFamily>& families);

// The family with the longest prefix of the name, in any case ("llama3.1-405b"). `words` receives
// "llama: gated feed-forward, ..". Throws ConfigError if the family is unknown or its layers are
// not modelled.
const ModelFamily& family_of(std::string_view model, const std::vector<ModelFamily>& families,
                             std::string* words = nullptr);

// A model's config.json, as model hubs publish it beside the weights, read as a workload.
struct HubConfig {
    Workload workload;
    AttentionKind attention = AttentionKind::flash;  // what its software runs it with
    std::vector<std::string> notes;                  // what was read with a reservation
};

// What the file calls the model of its text part, if it states no sizes of it.
struct NamedTextPart {
    std::string name;  // empty if not even that
    int vocab = 0;     // 0: not stated
};

void lay_family(Layers& layers, const std::string& path);  // the architecture only, no sizes

}  // namespace stepcast
