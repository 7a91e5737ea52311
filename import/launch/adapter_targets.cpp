#include "import/launch/adapter_targets.h"

#include <algorithm>

#include <fmt/format.h>

#include "import/launch/json_text.h"
#include "import/launch/module_pattern.h"
#include "import/launch/tool_files.h"
#include "measured/read.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"
#include "model/experiment.h"

namespace stepcast {
namespace {

bool is_whole_number(const std::string& word) {
    return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

// PEFT compares the end of a module's name, so "self_attn.q_proj" is q_proj below self_attn.
const std::string* ours_of(std::string name) {
    for (;;) {
        const auto& all = config_files().adapted;
        if (const auto found =
                std::ranges::find(all, name, &std::pair<std::string, std::string>::first);
            found != all.end())
            return &found->second;
        const auto dot = name.find('.');
        if (dot == std::string::npos || is_whole_number(name.substr(0, dot))) return nullptr;
        name.erase(0, dot + 1);
    }
}

// A file's type, else the preset's name; "" if no model is named.
std::string name_of_model(const Translation& t) {
    const auto* stated = t.find("workload.preset");
    if (!stated) return "";
    if (!stated->value.ends_with(".json")) return stated->value;
    Document d = read_json_or_yaml(plain_utf8(read_text(stated->value, "a model's config.json")),
                                   stated->value);
    return d.text("model_type");
}

constexpr std::string_view not_modelled =
    "adapters there, or of some layers alone, are not modelled: the forecast is without them";

bool has_expert_layers(const Translation& t) {
    const auto* stated = t.find("workload.preset");
    if (!stated) return t.count("workload.moe.experts", 0) > 0;
    Experiment named;
    set_key(named, {"workload.preset", stated->value});
    return named.workload.moe.experts > 0;
}

// What PEFT takes for the model, whose type it must know (mapping.py, of target_modules None).
void take_unnamed(AdapterTargets& targets, Translation& t) {
    const std::string model = name_of_model(t);
    if (model.empty()) {
        t.open.emplace_back(
            "adapters: no module is named; taken as beside queries and values, as PEFT does for "
            "most models");
        return targets.add("query value");
    }
    for (const auto& [begin, modules] : config_files().adapted_unnamed)
        if (model.starts_with(begin)) {
            if (modules.empty()) break;
            return targets.add(modules);
        }
    add_line(t.problems,
             "adapters: no module is named, and PEFT knows none for {}: it stops there; the "
             "forecast has them beside queries and values",
             model);
    targets.add("query value");
}

}  // namespace

void AdapterTargets::add(const std::string& words) {
    for (const std::string& word : words_of(words, " ")) {
        if (word == "linear")
            all = true;
        else if (word == "unnamed")
            of_peft = true;
        else
            add_once(modules, word);
    }
}

void AdapterTargets::add_named(const NamedValue& names, Translation& t) {
    at = names.at;
    if (is_module_pattern(names.value)) return add_pattern(names, t);
    for (const std::string& item : words_of(names.value, " ,[]'\"")) {
        if (const std::string word = lower_case(item); word == "all-linear" || word == "all") {
            all = true;
            continue;
        }
        if (const std::string* ours = ours_of(item))
            add(*ours);
        else
            t.problem(names, fmt::format("{}: {}", item, not_modelled));
    }
}

// PEFT compares an expression with whole names (tuners_utils.py: re.fullmatch); what stands before
// the last free part is the way to every layer, unless it is that of pictures or sounds.
void AdapterTargets::add_pattern(const NamedValue& names, Translation& t) {
    const auto spelled = module_names(names.value);
    if (!spelled)
        return t.problem(names,
                         "an expression that is not read: the forecast has no adapters by it");
    std::vector<std::string> unknown;
    for (const std::string& name : *spelled) {
        const auto free = name.rfind(any_word);
        std::string end = free == std::string::npos ? name : name.substr(free + 1);
        end.erase(0, std::min(end.find_first_not_of('.'), end.size()));
        const bool of_text = !has(name, "vis") && !has(name, "audio");
        if (const std::string* ours = of_text ? ours_of(end) : nullptr)
            add(*ours);
        else
            add_once(unknown, end.empty() ? name : end);
    }
    if (unknown.empty()) return;
    const bool more = unknown.size() > 3;
    if (more) unknown.resize(3);
    t.problem(names,
              fmt::format("{}{}: {}", joined(unknown, ", "), more ? ", .." : "", not_modelled));
}

void conclude(AdapterTargets targets, Translation& t) {
    if (t.count("workload.adapter_rank", 0) == 0) return;
    const bool none = targets.modules.empty() && !targets.all;
    if (none && targets.of_peft)
        take_unnamed(targets, t);
    else if (none)
        add_line(t.problems,
                 "adapters: no projection is named, and {} wants names; the forecast has them at "
                 "attention's",
                 t.format);
    const auto set = [&](const char* key, const std::string& value) {
        if (targets.at.empty())
            t.take_default(key, value);
        else
            t.set(key, value, targets.at);
    };
    const bool of_blocks = targets.all || contains(targets.modules, "gate") ||
                           contains(targets.modules, "up") || contains(targets.modules, "down");
    if (of_blocks && has_expert_layers(t))
        t.problems.emplace_back(
            "adapters beside the stacked matrices of experts, which PEFT makes since 0.19 in the "
            "types that it converts (utils/transformers_weight_conversion.py), are not modelled: "
            "the forecast has none there");
    std::vector<std::string> listed;  // in the order of the key's values
    for (const std::string_view name : name_list<AdaptedModule>)
        if (contains(targets.modules, name)) listed.emplace_back(name);
    if (targets.all || listed.size() == std::size(name_list<AdaptedModule>))
        return set("workload.adapter_on", "linear");
    if (listed.empty() || listed == std::vector<std::string>{"query", "key", "value", "output"})
        return set("workload.adapter_on", "attention");
    set("workload.adapter_modules", fmt::format("[\"{}\"]", joined(listed, "\", \"")));
}

}  // namespace stepcast
