// The one table of keys: where each lives in an Experiment, what it may hold and what it means.
// Reading files, --set, get_key, write_cluster and key_docs all use it. To add a key, add a field:
// keyed.h. Internal to model/.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/experiment.h"
#include "model/input/keyed.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"

namespace stepcast {

struct Key;

// How to read, check and write fields of one type, so that Key needs no template. There is one per
// type: field_type<T> in key_values.h.
struct FieldType {
    std::string_view kind;  // in docs
    bool quoted;            // in files
    // null if no value of a file fills it
    void (*assign)(void* field, const ConfigValue& value, double least, double most);
    std::span<const Key> (*row_keys)();            // of a list of tables; else null
    void* (*row)(void* field, std::size_t index);  // a row of it, with which the list may grow
    // the value that a file would hold for bare or quoted words
    ConfigValue (*typed)(const std::string& text);
    std::string (*text)(const void* field);
    double (*number)(const void* field);  // 0 if the field is no number
    void (*copy)(void* to, const void* from);
    std::span<const std::string_view> names;  // allowed names
};

// `least` and `most` bound numbers (in SI base units), inclusive. A default below `least` makes the
// key required.
struct Key {
    std::string_view path, meaning;
    double least = 0, most = 1e21;
    Effects affects = {};
    // of the field in an Experiment, or in the struct that keys_in() describes
    std::size_t offset = 0;
    // null: not a field; the key names the file that a table starts from, of kind `preset`
    const FieldType* type = nullptr;
    PresetKind preset{};
    // of an older name of a field: the present one, and what the step makes of it in older words
    std::string_view now = {};
    std::string (*older_text)(const Experiment&) = nullptr;
    // of an older name whose values say more than the field holds
    void (*older_assign)(Experiment&, const ConfigValue&) = nullptr;
    [[nodiscard]] void* field(void* holder) const { return static_cast<char*>(holder) + offset; }
    [[nodiscard]] const void* field(const void* holder) const {
        return static_cast<const char*>(holder) + offset;
    }
};

inline bool is_preset(const Key& key) { return !key.type; }

// The present name of the field.
inline std::string_view canonical(const Key& key) { return key.now.empty() ? key.path : key.now; }

const Key* find_key(std::string_view path);  // also by a name that it had before

// Text of the ConfigError for an unknown key. `prefix` is what keys of the file omit ("cluster." in
// a cluster file).
std::string unknown_key(const std::string& path, const std::string& prefix = "");

bool holds_rows(const Key& key);  // its value is a list of tables

// The list key that "cluster.kernel.attention_kernels.2.width" is a field of; nullptr if there is
// none.
const Key* key_of_row(std::string_view path);

// Returns false if the rows of that list have no such field.
bool assign_row(const Key& list, void* holder, std::string_view path, const ConfigValue& value);

// Of a struct that is no Experiment: sets the field, or field of a row, at `path`, and returns
// false if there is none; the fields as lines of a file, without empty lists of tables; candidates
// for "did you mean" ("gpu.name" for the rows of [[gpu]]).
bool assign_at(std::span<const Key> keys, void* holder, std::string_view path,
               const ConfigValue& value);
std::string lines_of(std::span<const Key> keys, const void* holder,
                     std::initializer_list<std::string_view> left_out);
std::vector<std::string> names_of_fields(std::span<const Key> keys);

// the fields in which it differs from `plain`
std::string row_text(std::span<const Key> keys, const void* row, const void* plain);

// Checks type, unit and range. Throws ConfigError without position or key name.
void assign(const Key& key, Experiment& experiment, const ConfigValue& value);

// The same for command-line text, quoted or bare.
void assign_text(const Key& key, Experiment& experiment, const std::string& text);

// The text of a value after the same checks.
std::string checked_text(const Key& key, const ConfigValue& value);
std::string checked_text(const Key& key, const std::string& text);

std::string text_of(const Key& key, const Experiment& experiment);  // bare, exact: as for --set

// As after `key = ` in a file. Control characters are removed from texts, because no reader accepts
// them.
std::string toml_text_of(const Key& key, const void* holder);
inline std::string toml_text_of(const Key& key, const Experiment& experiment) {
    return toml_text_of(key, &experiment);
}

bool is_missing(const Key& key, const Experiment& experiment);  // required and still at its default

// throws ConfigError for the first missing key
void check_required(const Experiment& experiment, std::string_view table = "");

// its default is empty or zero, and it still has it
bool is_unset(const Key& key, const Experiment& experiment);

}  // namespace stepcast
