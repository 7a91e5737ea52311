// Builds the keys of all tables from the fields of the structs that hold them (keyed.h).
#include <algorithm>
#include <deque>
#include <utility>

#include "model/keys/key_values.h"

namespace stepcast {
namespace {

// Keys hold views of their texts, so the texts must live as long as the program.
std::string_view kept(std::string text) {
    static std::deque<std::string> all;
    return all.emplace_back(std::move(text));
}

template <class T>
inline constexpr bool is_per_dtype = false;
template <class T>
inline constexpr bool is_per_dtype<PerDtype<T>> = true;

// Prefixes of a field's keys: of their path (a table with its final dot, or "attention_"), and of their meanings.
struct Place {
    std::string path, about;
};

class KeyRows {
public:
    template <auto... to>
    void add_table(const Place& at) {
        const std::string_view path = std::string_view(at.path).substr(0, at.path.size() - 1);
        const std::string_view name = path.substr(path.find_last_of('.') + 1);
        const auto add = [&]<auto... member>(const Keyed<member...>& row) {
            if (row.meaning) add_field<to..., member...>({at.path + std::string(row.name), at.about}, row.meaning, row.least, row.most);
        };
        each_key<FieldOf<to...>>(name, add);
    }
    void add_preset(std::string_view path, PresetKind kind, std::string_view meaning) {
        keys.push_back({.path = path, .meaning = meaning, .preset = kind});
    }
    std::vector<Key> keys;

private:
    template <auto... to>
    void add_field(const Place& at, const std::string& meaning, double least, double most) {
        using Field = FieldOf<to...>;
        if constexpr (OneValue<Field>)
            keys.push_back({kept(at.path), kept(at.about + meaning), least, most,
                            [](Experiment& e) -> void* { return &reach<to...>(e); }, &field_type<Field>});
        else if constexpr (is_per_dtype<Field>)
            [&]<std::size_t... i>(std::index_sequence<i...>) {
                (add_of_dtype<dtypes[i].dtype, to...>({at.path + std::string(dtypes[i].name), at.about}, meaning, least, most), ...);
            }(std::make_index_sequence<std::size(dtypes)>());
        else
            add_table<to...>({at.path.ends_with('_') ? at.path : at.path + ".", meaning.empty() ? at.about : meaning + ": "});
    }
    // Only products of narrow types have constants per dtype.
    template <Dtype dtype, auto... to>
    void add_of_dtype(const Place& at, const std::string& meaning, double least, double most) {
        if constexpr (OneValue<FieldOf<to..., dtype>>) add_field<to..., dtype>(at, meaning, least, most);
        else if constexpr (is_narrow(dtype)) add_field<to..., dtype>(at, std::string(to_string(dtype)) + ", " + meaning, least, most);
        if constexpr (dtype == Dtype::fp8 && std::is_same_v<FieldOf<to..., dtype>, NarrowGemm>)
            add_table<&Experiment::cluster, &Cluster::kernel, &KernelCosts::fp8_blocks>({at.path + "_blocks.", "fp8, scales of blocks: "});
    }
};

}  // namespace

const std::vector<Key>& all_keys() {
    static const std::vector<Key> all = [] {
        KeyRows rows;
        rows.add_preset("workload.preset", PresetKind::workload, "workload to start from: a preset's name or a file");
        rows.add_preset("workload.family", PresetKind::family, "architecture to start from: a family's name or a file");
        rows.add_table<&Experiment::workload>({"workload.", ""});
        rows.add_table<&Experiment::parallelism>({"parallelism.", ""});
        rows.add_table<&Experiment::routing>({"routing.", ""});
        rows.add_table<&Experiment::run>({"run.", ""});
        rows.add_table<&Experiment::recorded>({"recorded.", ""});
        rows.add_preset("cluster.preset", PresetKind::cluster, "cluster to start from: a preset's name or a file");
        rows.add_table<&Experiment::cluster>({"cluster.", ""});
        rows.add_preset("framework.preset", PresetKind::framework, "framework to start from: a preset's name or a file");
        rows.add_table<&Experiment::framework>({"framework.", ""});
        return std::move(rows.keys);
    }();
    return all;
}

std::span<const Key> keys_of(std::string_view table) {
    const auto is_of = [&](const Key& key) { return key.path.starts_with(table); };
    const auto first = std::ranges::find_if(all_keys(), is_of);
    return {first, std::find_if_not(first, all_keys().end(), is_of)};
}

}  // namespace stepcast
