#include "model/input/families.h"

#include <algorithm>

#include "model/base/errors.h"
#include "model/base/plain_text.h"
#include "model/input/fields.h"
#include "model/input/layers.h"

namespace stepcast {
namespace {

ModelFamily lay(Layers& layers, const std::string& path) {
    ModelFamily family;
    for (TomlFile& file : with_starts(PresetKind::family, "family.base", path)) {
        family = {};
        std::erase_if(file.entries, [&](const TomlEntry& entry) {
            if (!entry.path.starts_with("family.")) return false;
            at_place(entry.value_at + ": " + entry.path, [&] {
                if (!read_field(entry.path.substr(entry.path.find('.') + 1), entry.value, family))
                    throw ConfigError(
                        "unknown key; expected base, models, hub, about, unnamed, masked, "
                        "blocks_a_layer or not_modelled");
            });
            return true;
        });
        file.tables.erase("family");
        lay_file(layers, file, "workload.", Origin::family);
    }
    return family;
}

}  // namespace

void lay_family(Layers& layers, const std::string& path) {
    if (const auto family = lay(layers, path); !family.not_modelled.empty())
        throw ConfigError(path + ": is not modelled: " + family.not_modelled);
}

std::vector<ModelFamily> read_families() {
    std::vector<ModelFamily> families;
    for (const auto& name : preset_names(PresetKind::family)) {
        Layers layers;
        families.push_back(lay(layers, preset_path(PresetKind::family, name)));
        families.back().architecture = layers.experiment.workload;
    }
    return families;
}

bool knows_family(std::string_view model, const std::vector<ModelFamily>& families) {
    const auto name = lower_case(std::string(model));
    return std::ranges::any_of(families, [&](const ModelFamily& family) {
        return std::ranges::any_of(family.models,
                                   [&](const std::string& one) { return name.starts_with(one); });
    });
}

const ModelFamily& family_of(std::string_view model, const std::vector<ModelFamily>& families,
                             std::string* words) {
    const auto name = lower_case(std::string(model));
    const ModelFamily* found = nullptr;
    std::string known, begin;
    for (const ModelFamily& family : families)
        for (const auto& one : family.models) {
            if (family.not_modelled.empty()) known += (known.empty() ? "" : ", ") + one;
            if (!name.starts_with(one) || one.size() <= begin.size()) continue;
            found = &family;
            begin = one;
        }
    if (!found)
        throw ConfigError("model: \"" + std::string(model) +
                          "\" is of no known family and no preset experiment; expected a name that "
                          "begins with one of " +
                          known +
                          "; to add one, write model/presets/families/NAME.toml (docs/files.md)");
    if (!found->not_modelled.empty())
        throw ConfigError("model: \"" + std::string(model) +
                          "\" is not modelled: " + found->not_modelled);
    if (words) *words = begin + ": " + found->about;
    return *found;
}

}  // namespace stepcast
