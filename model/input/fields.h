// Table files whose fields are not keys of an experiment: fits, scatter, prices, families, devices,
// runs. Their structs declare fields in the same way as an experiment's (keyed.h).
#pragma once

#include "model/base/errors.h"
#include "model/input/key_values.h"
#include "model/input/toml_reader.h"

namespace stepcast {

// Reads "failures.source", or "gpu.2.name" of [[gpu]], into its field; false if there is no such
// field.
template <class Table>
bool read_field(std::string_view path, const ConfigValue& value, Table& table) {
    return assign_at(keys_in<Table>(), &table, path, value);
}

// The fields of one value as lines of a file, without empty lists of tables.
template <class Table>
std::string field_lines(const Table& table, std::initializer_list<std::string_view> left_out = {}) {
    return lines_of(keys_in<Table>(), &table, left_out);
}

// Passes each entry to `take`, which returns whether it knows it; else `unknown` describes the
// error. Errors get their position.
template <class Take, class Unknown>
void each_entry(const std::vector<TomlEntry>& entries, Take take, Unknown unknown) {
    for (const TomlEntry& entry : entries) {
        if (!at_place(entry.value_at + ": " + entry.path, [&] { return take(entry); }))
            throw ConfigError(entry.key_at + ": " + unknown(entry));
    }
}

// Reads a whole file; `of` is for example "a market file".
template <class Table>
Table read_table(const std::string& path, std::string_view of) {
    Table table;
    each_entry(
        read_toml(path).entries,
        [&](const TomlEntry& entry) { return read_field(entry.path, entry.value, table); },
        [&](const TomlEntry& entry) {
            return "\"" + entry.path + "\" is no key of " + std::string(of) +
                   did_you_mean(entry.path, names_of_fields(keys_in<Table>()));
        });
    return table;
}

}  // namespace stepcast
