// Files of tables that are no keys of an experiment: fits, scatter, prices, families, devices, runs. Their structs name their fields
// as those of an experiment do (keyed.h).
#pragma once

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "model/keys/key_values.h"
#include "model/keys/toml_reader.h"

namespace stepcast {

// Of [[rows]], "2.field": the third of them, and `path` is "field"; nullptr where the path is another's.
template <class Row>
Row* row_of(std::vector<Row>& rows, std::string_view& path) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), index);
    if (error != std::errc() || end == path.data() + path.size() || *end != '.' || index > 10'000) return nullptr;
    if (index >= rows.size()) rows.resize(index + 1);
    path.remove_prefix(static_cast<std::size_t>(end - path.data()) + 1);
    return &rows[index];
}

// Reads "failures.source", or of [[gpu]] "gpu.2.name", into its field; false where there is none.
template <class Table>
bool read_field(std::string_view path, const ConfigValue& value, Table& table) {
    bool known = false;
    const auto read = [&]<auto... member>(const Keyed<member...>& row) {
        auto& field = reach<member...>(table);
        using Field = std::remove_cvref_t<decltype(field)>;
        if (known || !path.starts_with(row.name)) return;
        std::string_view below = path.substr(row.name.size());
        if constexpr (OneValue<Field>) {
            if (known = below.empty(); !known) return;
            read_value(value, field);
            check_range(field, row.least, row.most);
        } else if (below.starts_with('.')) {
            below.remove_prefix(1);
            if constexpr (is_list<Field>) {
                auto* const one = row_of(field, below);
                known = one && read_field(below, value, *one);
            } else {
                known = read_field(below, value, field);
            }
        }
    };
    each_key<Table>("", read);
    return known;
}

// The fields of one value as lines of a file; texts without control characters, which no reader takes.
template <class Table>
std::string field_lines(const Table& table, std::initializer_list<std::string_view> left_out = {}) {
    std::string text;
    const auto write = [&]<auto... member>(const Keyed<member...>& row) {
        const auto& field = reach<member...>(table);
        using Field = std::remove_cvref_t<decltype(field)>;
        if constexpr (OneValue<Field>) {
            if (std::find(left_out.begin(), left_out.end(), row.name) != left_out.end()) return;
            std::string value;
            if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
                Field plain;
                for (const std::string& one : field) plain.push_back(plain_text(one));
                value = value_text(plain);
            } else {
                value = value_text(field);
                if (field_type<Field>.quoted) value = quoted_toml(plain_text(value));
            }
            text += std::string(row.name) + " = " + value + "\n";
        }
    };
    each_key<Table>("", write);
    return text;
}

// What one may have meant: "gpu.name" of the rows of [[gpu]].
template <class Table>
std::vector<std::string> names_of_fields(const std::string& before = "") {
    std::vector<std::string> names;
    const auto add = [&]<auto... member>(const Keyed<member...>& row) {
        using Field = std::remove_cvref_t<decltype(reach<member...>(std::declval<Table&>()))>;
        const std::string name = before + std::string(row.name);
        if constexpr (OneValue<Field>) names.push_back(name);
        else if constexpr (is_list<Field>) std::ranges::move(names_of_fields<typename Field::value_type>(name + "."), std::back_inserter(names));
        else std::ranges::move(names_of_fields<Field>(name + "."), std::back_inserter(names));
    };
    each_key<Table>("", add);
    return names;
}

// Hands each entry to `take`, which says whether it knows it; else `unknown` says what is wrong with it. Errors get their
// position.
template <class Take, class Unknown>
void each_entry(const std::vector<TomlEntry>& entries, Take take, Unknown unknown) {
    for (const TomlEntry& entry : entries) {
        if (!at_place(entry.value_at + ": " + entry.path, [&] { return take(entry); }))
            throw ConfigError(entry.key_at + ": " + unknown(entry));
    }
}

// A whole file; `of`: "a market file".
template <class Table>
Table read_table(const std::string& path, std::string_view of) {
    Table table;
    each_entry(read_toml(path).entries, [&](const TomlEntry& entry) { return read_field(entry.path, entry.value, table); },
               [&](const TomlEntry& entry) {
                   return "\"" + entry.path + "\" is no key of " + std::string(of) + did_you_mean(entry.path, names_of_fields<Table>());
               });
    return table;
}

}  // namespace stepcast
