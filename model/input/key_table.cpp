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

}  // namespace

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
