#include "measured/read.h"

#include "measured/priors.h"
#include "model/base/errors.h"
#include "model/input/key_values.h"
#include "model/input/keys.h"
#include "model/input/presets.h"
#include "model/machine/cluster_file.h"

namespace stepcast {

Layers whole_experiment(const ExperimentSource& source, std::span<const Override> overrides) {
    Layers layers = lay_experiment(source, overrides);
    complete_machine(layers);
    adopt_framework(layers);
    return layers;
}

Layers whole_cluster(const std::string& path) {
    Layers layers;
    lay_cluster(layers, path);
    complete_machine(layers);
    return layers;
}

Experiment read_experiment(const ExperimentSource& source, std::span<const Override> overrides) {
    return checked(whole_experiment(source, overrides));
}

Experiment read_unchecked_experiment(const ExperimentSource& source,
                                     std::span<const Override> overrides) {
    return whole_experiment(source, overrides).experiment;
}

Cluster read_cluster(const std::string& path_or_preset) {
    const std::string path = preset_path(PresetKind::cluster, path_or_preset);
    return checked_cluster(whole_cluster(path), path);
}

void set_key(Experiment& experiment, const Override& override) {
    const Key* const key = find_key(override.key);
    if (!key || !is_preset(*key) || key->preset != PresetKind::cluster)
        return set_value(experiment, override);
    set_machine(experiment, at_place("--set " + override.key + "=" + override.value,
                                     [&] { return read_cluster(unquoted(override.value)); }));
}

}  // namespace stepcast
