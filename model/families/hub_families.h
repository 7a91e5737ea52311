// The kinds of models that a config.json may name, each with the rule that reads it. Internal to model/.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "model/errors.h"
#include "model/families/hub_config.h"
#include "model/keys/keys.h"

namespace stepcast {

using Json = nlohmann::json;

// Values of the file laid on the keys of a workload, which check type and range.
class HubValues {
public:
    HubValues(const Json& json, const std::string& path) : json_(json), path_(path) {}

    [[nodiscard]] bool states(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
    [[nodiscard]] const Json& of(const char* name) const { return json_[name]; }
    // The name that the file uses of several for the same; the first where it uses none.
    [[nodiscard]] const char* first(std::initializer_list<const char*> names) const {
        for (const char* name : names)
            if (states(name)) return name;
        return *names.begin();
    }
    void note(const std::string& text) { said.notes.push_back(text); }
    [[nodiscard]] bool flag(const char* name, bool otherwise) const {
        if (!states(name)) return otherwise;
        if (!json_[name].is_boolean()) fail(name, "found " + json_[name].dump() + "; expected true or false");
        return json_[name].get<bool>();
    }
    void need(const char* key, const char* name) {
        if (!states(name)) fail(name, "missing; expected a value for workload." + std::string(key));
        may(key, name);
    }
    void may(const char* key, const char* name) {
        if (!states(name)) return;
        at_place(path_ + ": " + name, [&] { assign(*find_key("workload." + std::string(key)), experiment_, value_of(json_[name])); });
    }
    Workload& workload() { return experiment_.workload; }
    HubConfig said;  // all but the workload
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
    Experiment experiment_;
};

struct ModelType {
    std::string_view name;
    void (*read)(HubValues&);
    std::string_view defaults = {};  // JSON: what a file of this type may leave out
};
std::span<const ModelType> model_types();
const ModelType& shape_of_llama();  // the shape that most others share

}  // namespace stepcast
