// Files of tables that are no keys of an experiment: fits, scatter, prices, families, runs. Internal to model/.
#pragma once

#include <charconv>
#include <functional>
#include <initializer_list>

#include "model/errors.h"
#include "model/keys/key_values.h"
#include "model/keys/toml_reader.h"

namespace stepcast {

// A field by its name, or what reads it.
struct NamedField {
    std::string_view name;
    std::function<void(const ConfigValue&)> read;
    template <class T>
    NamedField(std::string_view of, T& field) : name(of) {
        if constexpr (std::is_invocable_v<T&, const ConfigValue&>) read = field;
        else read = [&field](const ConfigValue& value) { read_value(value, field); };
    }
};

// False where no field has this name.
inline bool read_field(std::string_view name, const ConfigValue& value, std::initializer_list<NamedField> fields) {
    for (const NamedField& field : fields)
        if (field.name == name) return field.read(value), true;
    return false;
}

// Of [[table]], "table.2.field": the third of `rows`, with `field` in `name`; nullptr where the path is another's.
template <class Row>
Row* row_of(std::vector<Row>& rows, std::string_view path, std::string_view table, std::string& name) {
    if (!path.starts_with(table) || !path.substr(table.size()).starts_with('.')) return nullptr;
    std::size_t index = 0;
    const char* const last = path.data() + path.size();
    const auto [end, error] = std::from_chars(path.data() + table.size() + 1, last, index);
    if (error != std::errc() || end == last || *end != '.' || index > 10'000) return nullptr;
    if (index >= rows.size()) rows.resize(index + 1);
    name.assign(end + 1, last);
    return &rows[index];
}

// Hands each entry to `take`, which says whether it knows it; else `unknown` says what is wrong with it. Errors get their
// position.
template <class Take, class Unknown>
void each_entry(const std::vector<TomlEntry>& entries, Take take, Unknown unknown) {
    for (const TomlEntry& entry : entries) {
        bool known = false;
        try {
            known = take(entry);
        } catch (const ConfigError& error) {
            throw ConfigError(entry.value_at + ": " + entry.path + ": " + error.what());
        }
        if (!known) throw ConfigError(entry.key_at + ": " + unknown(entry));
    }
}

}  // namespace stepcast
