// The kinds of models that a config.json may name, and how model/presets/hub.toml says to read them. Internal to model/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/errors.h"
#include "model/families/families.h"
#include "model/keys/keyed.h"
#include "model/keys/keys.h"

namespace stepcast {

using Json = nlohmann::json;

struct HubType {
    KEY(std::vector<std::string>, names, {}, "`model_type` of config.json");
    KEY(std::vector<std::string>, set, {}, "keys of the workload that the type implies, with their values");
    KEY(std::vector<std::string>, keys, {}, "groups of keys that its files state");
    KEY(std::vector<std::string>, rules, {}, "what no list of names can say: hub_families.cpp");
    KEY(std::string, note, {}, "what is read with a reservation");
    KEY(std::string, defaults, {}, "JSON: what a file of this type may leave out");
};
// A key of the workload, and its names in config.json files.
struct HubKey {
    std::string group, key;
    std::vector<std::string> names;
    bool needed;
};
struct HubRules {
    KEY_NAMED(std::vector<HubType>, types, {}, "type", "");
    std::vector<HubKey> keys;
    std::vector<std::pair<std::string, std::string>> unread;  // keys that change the work but that no rule reads, and what they mean
    [[nodiscard]] const HubType* of(std::string_view name) const;  // nullptr for an unknown name
};
HubRules read_hub_rules();
inline constexpr std::string_view any_type = "*";  // any type whose sizes are named as in Llama

// Lays values of the file over keys of a workload, which check type and range.
class HubValues {
public:
    HubValues(const Json& json, const std::string& path, const HubRules& rules) : json_(json), path_(path), rules_(rules) {}

    void read(const HubType& type);
    void read_group(std::string_view group);

    [[nodiscard]] bool states(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
    [[nodiscard]] const Json& of(const char* name) const { return json_[name]; }
    void note(const std::string& text) { said.notes.push_back(text); }
    [[nodiscard]] bool flag(const char* name, bool otherwise) const {
        if (!states(name)) return otherwise;
        if (!json_[name].is_boolean()) fail(name, "found " + json_[name].dump() + "; expected true or false");
        return json_[name].get<bool>();
    }
    void may(const std::string& key, const char* name) {
        if (!states(name)) return;
        at_place(path_ + ": " + name, [&] { assign(*find_key("workload." + key), experiment_, value_of(json_[name])); });
    }
    Workload& workload() { return experiment_.workload; }
    HubConfig said;  // without the workload
    [[noreturn]] void fail(const char* name, const std::string& what) const {
        throw ConfigError(path_ + ": " + name + ": " + what);
    }

private:
    static ConfigValue value_of(const Json& value) {
        if (value.is_boolean()) return {value.get<bool>()};
        if (value.is_number_integer()) return {value.get<std::int64_t>()};
        if (value.is_number()) return {value.get<double>()};
        if (value.is_string()) return {value.get<std::string>()};
        throw ConfigError("found " + value.dump().substr(0, 40) + "; expected a number or text");
    }

    const Json& json_;
    const std::string& path_;
    const HubRules& rules_;
    Experiment experiment_;
};

}  // namespace stepcast
