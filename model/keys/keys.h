// The one table of keys: where each lives in an Experiment, what it may hold and what it means. Reading files,
// --set, get_key, write_cluster and key_docs all go through it. A new key is a field: keyed.h. Internal to model/.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/experiment.h"
#include "model/keys/toml_reader.h"
#include "model/presets.h"

namespace stepcast {

// What is known of a type that fields have: read, checked and written by it, so that a key names no types. One a type,
// field_type<T> of key_values.h.
struct FieldType {
    std::string_view kind;  // in docs
    bool quoted;            // in files
    void (*assign)(void* field, const ConfigValue& value, double least, double most);
    bool (*assign_row)(void* field, std::string_view path, const ConfigValue& value);  // of a list of tables "2.width"; else null
    ConfigValue (*typed)(const std::string& text);  // what a file would hold for bare or quoted words
    std::string (*text)(const void* field);
    double (*number)(const void* field);  // 0 of what is none
    std::span<const std::string_view> names;  // that it takes
};

// `least` and `most` bound numbers (in SI base units), inclusive. A default below `least` makes the key required.
struct Key {
    std::string_view path, meaning;
    double least = 0, most = 1e21;
    void* (*field)(Experiment&) = nullptr;
    const FieldType* type = nullptr;  // null: no field, but which file a whole table starts from, and `preset` is its kind
    PresetKind preset{};
};

inline bool is_preset(const Key& key) { return !key.type; }

std::span<const Key> workload_keys();  // workload, parallelism, routing, run, recorded
std::span<const Key> cluster_keys();
std::span<const Key> framework_keys();

// Every key once, in the order of the documentation.
const std::vector<Key>& all_keys();
const Key* find_key(std::string_view path);

// The ConfigError text of an unknown key: `prefix` is what a file leaves out ("cluster." in a cluster file).
std::string unknown_key(const std::string& path, const std::string& prefix = "");

bool holds_rows(const Key& key);  // a list of tables
// The key of such a list that "cluster.kernel.attention_kernels.2.width" is a field of; nullptr where it is of none.
const Key* key_of_row(std::string_view path);
// False where the rows of that list have no such field.
bool assign_row(const Key& key, Experiment& experiment, std::string_view path, const ConfigValue& value);

// Checks type, unit and range; throws ConfigError without position or key name.
void assign(const Key& key, Experiment& experiment, const ConfigValue& value);
// Command-line text, quoted or bare.
void assign_text(const Key& key, Experiment& experiment, const std::string& text);

std::string text_of(const Key& key, const Experiment& experiment);       // bare, exact: as for --set
std::string toml_text_of(const Key& key, const Experiment& experiment);  // as after `key = ` in a file
std::string quoted_toml(std::string_view text);
bool is_missing(const Key& key, const Experiment& experiment);  // required and still at its default
void check_required(const Experiment& experiment, std::span<const Key> keys);  // throws ConfigError of the first that is missing
bool is_unset(const Key& key, const Experiment& experiment);    // empty or zero by default, and untouched

}  // namespace stepcast
