#include "model/input/keys.h"
#include "model/base/joined.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/input/framework_file.h"
#include "model/input/key_table.h"
#include "model/input/key_values.h"
#include "model/input/older_keys.h"

namespace stepcast {
namespace {

const FieldType& type_of(const Key& key) {
    if (!is_preset(key)) return *key.type;
    throw std::logic_error(std::string(key.path) +
                           " is no field: read_experiment() and set_key() load presets");
}

std::string without_table(const Key& key) {
    return std::string(key.path.substr(key.path.find('.') + 1));
}

// The key that `path` resembles once its table is added.
std::string near_in_a_table(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& key : all_keys()) names.push_back(without_table(key));
    const std::string near = did_you_mean(path, names);
    for (const auto& key : all_keys())
        if (near == fmt::format(", did you mean \"{}\"?", without_table(key)))
            return fmt::format(", did you mean \"{}\"?", key.path);
    return "";
}

}  // namespace

const Key* find_key(std::string_view path) {
    static const auto by_path = [] {
        std::unordered_map<std::string_view, const Key*> found;
        for (const auto* keys : {&all_keys(), &older_keys()})
            for (const Key& key : *keys) found.emplace(key.path, &key);
        return found;
    }();
    const auto found = value_in(by_path, path);
    return found ? *found : nullptr;
}

std::string whole_key(const std::string& word) {
    if (word.empty() || find_key(word)) return word;
    std::string found;
    for (const char* table : {"workload", "parallelism", "runtime", "cluster", "routing", "run"}) {
        const auto path = fmt::format("{}.{}", table, word);
        const Key* const key = find_key(path);
        if (!key || (!found.empty() && canonical(*find_key(found)) == canonical(*key))) continue;
        if (!found.empty()) refuse("{} may be {} or {}; expected the whole key", word, found, path);
        found = path;
    }
    return found.empty() ? word : found;
}

// What stands after `prefix` in keys, and of those in `table` the names, as a list.
static std::pair<std::vector<std::string>, std::string> valid_names(const std::string& prefix,
                                                                    const std::string& table) {
    std::vector<std::string> valid;
    std::string siblings;
    for (const auto& key : all_keys()) {
        const bool preset = is_preset(key);
        if (!key.path.starts_with(prefix) || (preset && !prefix.empty())) continue;
        const std::string shown(key.path.substr(prefix.size()));
        valid.push_back(shown);
        if (const auto dot = shown.find('.'); dot != std::string::npos)
            valid.push_back(shown.substr(0, dot));
        if (const auto rest = shown.substr(std::min(shown.size(), table.size()));
            !table.empty() && shown.starts_with(table) && !has(rest, '.'))
            siblings += (siblings.empty() ? "" : ", ") + rest;
    }
    if (prefix == "framework.") append(valid, framework_line_names());
    return {valid, siblings};
}

std::string unknown_key(const std::string& path, const std::string& prefix) {
    if (prefix + path == "cluster.kernel.attention_fp8_width")
        return "no key since November 2026: exponentials take in fp8 as long as in 16 bits "
               "(attention_width), casts have launches of their own "
               "(attention_fp8_launch), and attention_fp8 is of the products alone; calibrate "
               "again, or take both lines out";
    const auto table = path.substr(0, path.find_last_of('.') + 1);
    const auto& [valid, siblings] = valid_names(prefix, table);
    const auto near = did_you_mean(path, valid);
    if (near.empty() && siblings.empty() && prefix.empty())
        return "unknown key" + near_in_a_table(path);
    if (!near.empty() || siblings.empty()) return "unknown key" + near;
    return "unknown key; expected one of " + siblings + " in " + table.substr(0, table.size() - 1);
}

void check_required(const Experiment& experiment, std::string_view table) {
    for (const auto& key : keys_of(table))
        if (is_missing(key, experiment)) refuse("{}: missing; expected {}", key.path, key.meaning);
}

void assign(const Key& key, Experiment& experiment, const ConfigValue& value) {
    if (key.older_assign) return key.older_assign(experiment, value);
    type_of(key).assign(key.field(&experiment), value, key.least, key.most);
}

bool holds_rows(const Key& key) { return !is_preset(key) && key.type->row; }

const Key* key_of_row(std::string_view path) {
    for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
        if (dot + 1 == path.size() || path[dot + 1] < '0' || path[dot + 1] > '9') continue;
        const Key* key = find_key(path.substr(0, dot));
        return key && holds_rows(*key) ? key : nullptr;
    }
    return nullptr;
}

bool assign_row(const Key& list, void* holder, std::string_view path, const ConfigValue& value) {
    path.remove_prefix(list.path.size() + 1);
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), index);
    const auto below = as_index(end - path.data());
    if (error != std::errc() || below == path.size() || *end != '.' || index > 10'000) return false;
    return assign_at(list.type->row_keys(), list.type->row(list.field(holder), index),
                     path.substr(below + 1), value);
}

bool assign_at(std::span<const Key> keys, void* holder, std::string_view path,
               const ConfigValue& value) {
    for (const Key& key : keys) {
        if (!path.starts_with(key.path)) continue;
        const bool whole = path.size() == key.path.size();
        if (!whole && path[key.path.size()] == '.' && holds_rows(key))
            return assign_row(key, holder, path, value);
        if (!whole || !key.type->assign) continue;
        key.type->assign(key.field(holder), value, key.least, key.most);
        return true;
    }
    return false;
}

std::string lines_of(std::span<const Key> keys, const void* holder,
                     std::initializer_list<std::string_view> left_out) {
    std::string text;
    for (const Key& key : keys) {
        const std::string value = toml_text_of(key, holder);
        if (!contains(left_out, key.path) && !(holds_rows(key) && value == "[]"))
            text += fmt::format("{} = {}\n", key.path, value);
    }
    return text;
}

std::string row_text(std::span<const Key> keys, const void* row, const void* plain) {
    std::string text;
    for (const Key& key : keys)
        if (const std::string value = toml_text_of(key, row); value != toml_text_of(key, plain))
            text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key.path, value);
    return text;
}

std::vector<std::string> names_of_fields(std::span<const Key> keys) {
    std::vector<std::string> names;
    for (const Key& key : keys) {
        if (key.type->assign)
            names.emplace_back(key.path);
        else
            for (const std::string& field : names_of_fields(key.type->row_keys()))
                names.push_back(fmt::format("{}.{}", key.path, field));
    }
    return names;
}

void assign_text(const Key& key, Experiment& experiment, const std::string& text) {
    assign(key, experiment, type_of(key).typed(text));
}

std::string checked_text(const Key& key, const ConfigValue& value) {
    thread_local Experiment scratch;
    assign(key, scratch, value);
    return text_of(key, scratch);
}
std::string checked_text(const Key& key, const std::string& text) {
    return checked_text(key, type_of(key).typed(text));
}

std::string text_of(const Key& key, const Experiment& experiment) {
    if (key.older_text) return key.older_text(experiment);
    return is_preset(key) ? "" : key.type->text(key.field(&experiment));
}

std::string toml_text_of(const Key& key, const void* holder) {
    const std::string text = type_of(key).text(key.field(holder));
    return key.type->quoted ? quoted_toml(plain_text(text)) : text;
}

bool is_missing(const Key& key, const Experiment& experiment) {
    return !is_preset(key) && key.type->number(key.field(&experiment)) < key.least;
}

bool is_unset(const Key& key, const Experiment& experiment) {
    const auto text = text_of(key, experiment);
    return text == text_of(key, Experiment{}) &&
           (text.empty() || text == "[]" || text == "0" || text.starts_with("0 "));
}

// "shape, memory"; "" if none was declared
static std::string effects_text(Effects effects) {
    constexpr std::pair<Affects, const char*> parts[] = {
        {Affects::ranks, "groups of ranks"},
        {Affects::shape, "work and tensors of a layer on a rank"},
        {Affects::pipeline, "layers, micro-batches and order of the stages"},
        {Affects::sends, "what goes between stages"},
        {Affects::data, "collectives of gradients and parameters, and the update"},
        {Affects::overlap, "which of these collectives other work hides"},
        {Affects::memory, "the memory of a rank"}};
    std::string text;
    for (const auto& [part, name] : parts)
        if (effects.has(part)) text += (text.empty() ? "" : "; ") + std::string(name);
    return text;
}

std::vector<KeyDoc> key_docs() {
    std::vector<KeyDoc> docs;
    const Experiment defaults;
    for (const auto& key : all_keys()) {
        docs.push_back(
            {std::string(key.path), std::string(is_preset(key) ? "preset" : key.type->kind),
             is_missing(key, defaults) ? "required" : text_of(key, defaults),
             std::string(key.meaning), is_preset(key) ? "" : joined(key.type->names, ", "),
             effects_text(key.affects)});
    }
    return docs;
}

}  // namespace stepcast
