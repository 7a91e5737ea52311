// What is emitted, read back as a user would import it.
#pragma once

#include <string>
#include <vector>

#include "import/launch/lost_keys.h"
#include "import/launch/translation.h"
#include "measured/read.h"
#include "tests/import/launch/every_key.h"
#include "tests/model/files.h"

namespace stepcast::every_key {

inline const char* file_of(EmitFormat format) {
    return format == EmitFormat::megatron           ? "flags.sh"
           : format == EmitFormat::torchtitan       ? "titan.toml"
           : format == EmitFormat::torchtitan_flags ? "titan.sh"
           : format == EmitFormat::deepspeed        ? "ds.json"
           : format == EmitFormat::nemo             ? "nemo.yaml"
                                                    : "bridge.yaml";
}

// As a user imports it: through the file and the text of the experiment that is written of it, with
// the keys set that the notes name.
inline Experiment imported_again(const Experiment& e, const Emission& emission, EmitFormat format,
                                 const TestFolder& folder) {
    const auto path = folder.write(file_of(format), emission.text);
    const auto text = experiment_text(translate(path, {.replicas = e.parallelism.dp}));
    const Experiment asked = with_values_written_out(e);
    std::vector<Override> overrides{{"workload.kind", "transformer"},
                                    {"cluster.preset", "dgx-h100"},
                                    {"cluster.nodes", std::to_string(e.cluster.nodes)}};
    for (const std::string& key : emission.lost)
        if (!key.starts_with("framework.")) overrides.push_back({key, get_key(asked, key)});
    for (const char* key : {"parallelism.dp", "cluster.gpus_per_node"})
        overrides.push_back({key, get_key(asked, key)});
    Experiment back = read_unchecked_experiment({path, text}, overrides);
    const bool other_framework = std::ranges::any_of(
        emission.lost, [](const std::string& key) { return key.starts_with("framework."); });
    if (other_framework) back.framework = e.framework;
    if (other_framework) back.cluster = e.cluster;
    // no part of a script; nodes of fewer GPUs have fewer NICs unless a file says otherwise
    back.cluster.network = e.cluster.network;
    return back;
}

inline bool can_emit(const Experiment& e, EmitFormat format) {
    try {
        script_of(e, format);
        return true;
    } catch (const ConfigError&) {
        return false;
    }
}

}  // namespace stepcast::every_key
