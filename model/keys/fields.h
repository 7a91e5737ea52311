// Table files whose fields are not keys of an experiment: fits, scatter, prices, families, devices, runs. Their structs declare
// fields in the same way as an experiment's (keyed.h).
#pragma once

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "model/keys/key_values.h"
#include "model/keys/toml_reader.h"

namespace stepcast {

// The value as written after `key = ` in a file. Control characters are removed from texts, because no reader accepts them.
template <OneValue Field>
std::string text_in_file(const Field& field) {
    if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
        Field plain;
        for (const std::string& one : field) plain.push_back(plain_text(one));
        return value_text(plain);
    } else {
        const std::string value = value_text(field);
        return field_type<Field>.quoted ? quoted_toml(plain_text(value)) : value;
    }
}

// The fields of one value as lines of a file.
template <class Table>
std::string field_lines(const Table& table, std::initializer_list<std::string_view> left_out = {}) {
    std::string text;
    const auto write = [&]<auto... member>(const Keyed<member...>& row) {
        const auto& field = reach<member...>(table);
        if constexpr (OneValue<std::remove_cvref_t<decltype(field)>>)
            if (std::find(left_out.begin(), left_out.end(), row.name) == left_out.end())
                text += std::string(row.name) + " = " + text_in_file(field) + "\n";
    };
    each_key<Table>("", write);
    return text;
}

// A list of tables, one line each, with the fields that differ from their defaults: [{key = "kernel.launch", value = "2 us"}, ..].
template <class Row>
std::string rows_in_file(const std::vector<Row>& rows) {
    std::string text;
    const Row plain;
    for (const Row& row : rows) {
        std::string fields;
        const auto write = [&]<auto... member>(const Keyed<member...>& key) {
            const auto& field = reach<member...>(row);
            if (field != reach<member...>(plain))
                fields += (fields.empty() ? "" : ", ") + std::string(key.name) + " = " + text_in_file(field);
        };
        each_key<Row>("", write);
        text += "\n  {" + fields + "},";
    }
    return text.empty() ? "[]" : "[" + text + "\n]";
}

// Candidates for "did you mean": "gpu.name" for the rows of [[gpu]].
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

// Passes each entry to `take`, which returns whether it knows it; else `unknown` describes the error. Errors get their position.
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
    each_entry(read_toml(path).entries, [&](const TomlEntry& entry) { return read_field(entry.path, entry.value, table); },
               [&](const TomlEntry& entry) {
                   return "\"" + entry.path + "\" is no key of " + std::string(of) + did_you_mean(entry.path, names_of_fields<Table>());
               });
    return table;
}

}  // namespace stepcast
