// The kinds of models that a config.json may name, and how model/presets/hub.toml says to read
// them. Internal to model/.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/base/errors.h"
#include "model/input/families.h"
#include "model/input/keyed.h"
#include "model/input/keys.h"

namespace stepcast {

using Json = nlohmann::json;

struct HubType {
    KEY(std::vector<std::string>, names, {}, "`model_type` of config.json");
    KEY(std::vector<std::string>, set, {},
        "keys of the workload that the type implies, with their values");
    KEY(std::vector<std::string>, keys, {}, "groups of keys that its files state");
    KEY(std::vector<std::string>, rules, {}, "what no list of names can say: hub_families.cpp");
    KEY(std::string, note, {}, "what is read with a reservation");
};
// A key of the workload, and its names in config.json files.
struct HubKey {
    std::string group, key;
    std::vector<std::string> names;
    bool needed;
};
struct HubRules {
    KEY_NAMED(std::vector<HubType>, types, {}, "type", "");
    KEY(std::vector<std::string>, text_parts, {},
        "tables of a multimodal file that hold its text model");
    KEY(std::vector<std::string>, speaking, {}, "parts of names that speak of the work of a step");
    KEY(std::vector<std::string>, without_effect, {},
        "names, with * at an end, that change no work of a step");
    std::vector<HubKey> keys;
    std::vector<std::string>
        // models of several parts whose text model has logits of its own weights, unless stated
        untied_wholes;
    Json defaults =
        // of each type: what a file that leaves a name out means, in the library that reads it
        Json::object();
    // keys that change the work but that no rule reads, and what they mean
    std::vector<std::pair<std::string, std::string>> unread;
    [[nodiscard]] const HubType* of(std::string_view name) const;  // nullptr for an unknown name
};
HubRules read_hub_rules();
inline constexpr std::string_view any_type = "*";  // any type whose sizes are named as in Llama

// Lays values of the file over keys of a workload, which check type and range. A name may reach
// into a table ("attn_config.kv_n_heads").
class HubValues {
public:
    // `filled`: sizes, too, that the file leaves out are the type's defaults.
    HubValues(const Json& file, Json defaults, const std::string& path, const HubRules& rules,
              bool filled)
        : file_(file),
          defaults_(std::move(defaults)),
          path_(path),
          rules_(rules),
          filled_(filled) {}

    void read(const HubType& type);
    void read_group(std::string_view group);
    // Names what the file states, nothing has asked for, and may change the work. `known`: by a
    // type whose other names are known.
    void note_unread(bool known);

    // By the file, or by a default of the type; a null in the file states that there is none.
    [[nodiscard]] bool states(const std::string& name) const { return find(name) != nullptr; }
    [[nodiscard]] bool stated_in_file(const std::string& name) const;
    [[nodiscard]] bool asked(const std::string& name) const { return asked_.contains(name); }
    [[nodiscard]] const Json& of(const std::string& name) const { return *find(name); }
    void note(const std::string& text) { said.notes.push_back(text); }
    [[nodiscard]] bool flag(const std::string& name, bool otherwise) const {
        if (!states(name)) return otherwise;
        if (!of(name).is_boolean())
            fail(name, "found " + of(name).dump() + "; expected true or false");
        return of(name).get<bool>();
    }
    void may(const std::string& key, const std::string& name);
    Workload& workload() { return experiment_.workload; }
    HubConfig said;  // without the workload
    [[noreturn]] void fail(const std::string& name, const std::string& what) const {
        throw ConfigError(path_ + ": " + name + ": " + what);
    }

private:
    static ConfigValue value_of(const Json& value);
    const Json* find(const std::string& name) const;
    void read_key(const HubKey& key);

    const Json& file_;
    Json defaults_;
    const std::string& path_;
    const HubRules& rules_;
    bool filled_;
    std::string filled_in_;
    mutable std::set<std::string, std::less<>> asked_;
    Experiment experiment_;
};

}  // namespace stepcast
