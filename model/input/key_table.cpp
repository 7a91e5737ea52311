#include "model/input/key_table.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "model/input/key_values.h"

namespace stepcast {
namespace {

// Keys hold views of their texts, so the texts must live as long as the program.
std::string_view kept(std::string text) {
    static std::deque<std::string> all;
    return all.emplace_back(std::move(text));
}

Key key_of(const KeyTexts& row, std::size_t offset) {
    return {.path = row.name,
            .meaning = row.meaning ? row.meaning : "",
            .least = row.least,
            .most = row.most,
            .affects = row.affects,
            .offset = offset};
}

void add_below(std::vector<Key>& keys, const Key& at, std::span<const Key> table) {
    const bool joins = at.path.empty() || at.path.ends_with('.') || at.path.ends_with('_');
    for (Key key : table) {
        key.path = kept(fmt::format("{}{}{}", at.path, joins ? "" : ".", key.path));
        key.meaning =
            kept(fmt::format("{}{}{}", at.meaning,
                             at.meaning.empty() || key.meaning.empty() ? "" : ": ", key.meaning));
        key.offset += at.offset;
        keys.push_back(key);
    }
}

}  // namespace

void add_field(std::vector<Key>& keys, const KeyTexts& row, std::size_t offset,
               const FieldType& type) {
    keys.push_back(key_of(row, offset));
    keys.back().type = &type;
}

void add_by_dtype(std::vector<Key>& keys, const KeyTexts& row, std::size_t offset,
                  const FieldType& type, std::size_t size) {
    for (std::size_t i = 0; i < std::size(dtypes); ++i) {
        const Key one{.path = dtypes[i].name,
                      .meaning = "",
                      .least = row.least,
                      .most = row.most,
                      .offset = i * size,
                      .type = &type};
        add_below(keys, key_of(row, offset), std::span(&one, 1));
    }
}

void add_table(std::vector<Key>& keys, const KeyTexts& row, std::size_t offset,
               std::span<const Key> table) {
    add_below(keys, key_of(row, offset), table);
}

std::string_view name_of_table(std::string_view field) {
    const std::string_view last = field.substr(field.find_last_of('.') + 1);
    return last.substr(0, last.size() - (last.ends_with('_') ? 1 : 0));
}

template std::span<const Key> keys_in<Cluster>();

const std::vector<Key>& all_keys() {
    static const std::vector<Key> all = [] {
        std::vector<Key> keys;
        const auto add_preset = [&](std::string_view path, PresetKind kind,
                                    std::string_view meaning) {
            keys.push_back({.path = path, .meaning = meaning, .preset = kind});
        };
        const auto add_table = [&]<class Table>(std::string_view path, Table Experiment::*table) {
            add_below(keys, {.path = path, .meaning = "", .offset = offset_of(table)},
                      keys_in<Table>());
        };
        add_preset("workload.preset", PresetKind::workload,
                   "workload to start from: a preset's name or a file");
        add_preset("workload.family", PresetKind::family,
                   "architecture to start from: a family's name or a file");
        add_table("workload", &Experiment::workload);
        add_table("parallelism", &Experiment::parallelism);
        add_table("runtime", &Experiment::runtime);
        add_table("routing", &Experiment::routing);
        add_table("run", &Experiment::run);
        add_table("recorded", &Experiment::recorded);
        add_preset("cluster.preset", PresetKind::cluster,
                   "cluster to start from: a preset's name or a file");
        add_table("cluster", &Experiment::cluster);
        add_preset("framework.preset", PresetKind::framework,
                   "framework to start from: a preset's name or a file");
        add_table("framework", &Experiment::framework);
        return keys;
    }();
    return all;
}

std::span<const Key> keys_of(std::string_view table) {
    const auto is_of = [&](const Key& key) { return key.path.starts_with(table); };
    const auto first = std::ranges::find_if(all_keys(), is_of);
    return {first, std::find_if_not(first, all_keys().end(), is_of)};
}

}  // namespace stepcast
