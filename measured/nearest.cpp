#include "measured/nearest.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <ranges>
#include <set>

#include "measured/priors.h"
#include "measured/transfer.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
#include "model/input/fields.h"
#include "model/input/presets.h"
#include "model/machine/cluster_file.h"
#include "model/machine/generation.h"

namespace stepcast {
namespace {

bool like_fabrics(const Cluster& a, const Cluster& b) {
    return a.fabric == b.fabric || (joins_gpus(a.fabric) && joins_gpus(b.fabric));
}

// The weights: dies for NVSwitch and dies for PCIe differ more than generations do.
int likeness(const Cluster& a, const Cluster& b) {
    return (like_fabrics(a, b) ? 4 : 0) -
           std::abs(as_int(generation(a.gpu)) - as_int(generation(b.gpu)));
}
constexpr int same_generation = 4, one_generation_away = 3;  // likeness with equal fabric

struct PriorLists {
    KEY(std::vector<std::string>, machines, {}, "whose constants others are taken from");
    KEY(std::vector<std::string>, sisters, {}, "lists of machines whose chips have the same SMs");
    KEY(std::vector<std::string>, other_makers, {},
        "words in the names of devices that are not NVIDIA's, and whose they are");
    KEY(double, rings_between_sockets, 1,
        "share of a PCIe link that a ring over both sockets of a node reaches", 1e-3, 1);
};
PriorLists read_lists() {
    const std::string path = home_folder() + "/model/presets/priors.toml";
    return std::filesystem::is_regular_file(path) ? read_table<PriorLists>(path, "a file of priors")
                                                  : PriorLists{};
}

Machines at_least(int wanted, const Machines& from, const Cluster& to) {
    return where(from, [&](const Cluster& c) { return likeness(c, to) >= wanted; });
}

Machines nearest(const Machines& from, const Cluster& to) {
    const int most = std::ranges::max(
        from | std::views::transform([&](const Cluster& c) { return likeness(c, to); }));
    return at_least(most, from, to);
}

Machines with_kernels_like(const Machines& all, const Cluster& to) {
    if (auto same = at_least(same_generation, all, to); !same.empty()) return same;
    const auto alike = where(all, [&](const Cluster& c) {
        return has_generations(c.gpu) == has_generations(to.gpu) && same_sms(c.gpu, to.gpu);
    });
    if (!alike.empty()) return nearest(alike, to);
    const auto near = at_least(one_generation_away, all, to);
    return near.empty() ? of_like_rate(all, to.gpu) : near;
}

Machines with_types_like(const Machines& all, const Machines& near, const Cluster& to) {
    const bool has = near.front().gpu.peaks[Dtype::fp8] > FlopsPerSecond(0);
    return has ? near : nearest(all, to);
}

// Each rule applies only if some machine fulfils it. The number of ranks per domain counts only
// within one generation.
Machines with_links_like(const Machines& all, const Cluster& to) {
    Machines best = all;
    const auto prefer = [&](const auto& rule) {
        auto kept = where(best, rule);
        if (kept.empty()) return false;
        best = std::move(kept);
        return true;
    };
    const auto of_links = [](const Cluster& c) {
        return std::min(generation(c.gpu), Generation::blackwell);
    };
    prefer([&](const Cluster& c) { return like_fabrics(c, to); });
    prefer([&](const Cluster& c) { return has_generations(c.gpu) == has_generations(to.gpu); });
    if (prefer([&](const Cluster& c) { return of_links(c) == of_links(to); }))
        prefer([&](const Cluster& c) { return c.gpus_per_node == to.gpus_per_node; });
    return best;
}

// AMD's RCCL derives from NCCL, so another library is assumed only if `to` has a generation and the
// linked machines have none.
Machines with_library_of(const Machines& all, const Machines& linked, const Cluster& to) {
    if (!has_generations(to.gpu) || has_generations(linked.front().gpu)) return linked;
    const auto own = where(all, [](const Cluster& c) { return has_generations(c.gpu); });
    return own.empty() ? linked : nearest(own, to);
}

bool is_narrow(std::string_view path) {
    constexpr std::array formats{"cluster.kernel.fp8", "cluster.kernel.fp4",
                                 "cluster.kernel.cast."};
    return std::ranges::any_of(formats, [&](const char* f) { return path.starts_with(f); });
}

bool is_of_library(std::string_view path) {
    constexpr std::string_view link = "cluster.link.intra.";
    constexpr std::array of_fabric{"nvls_", "dispatch", "training"};
    return path.starts_with(link) && std::ranges::none_of(of_fabric, [&](const char* f) {
               return path.substr(link.size()).starts_with(f);
           });
}

}  // namespace

std::string names_of(const Machines& from) {
    std::string names;
    for (const Cluster& machine : from) names += (names.empty() ? "" : ", ") + machine.name;
    return names;
}

double rings_between_sockets() { return read_lists().rings_between_sockets; }

std::vector<std::string> measured_machines() { return read_lists().machines; }

std::vector<std::string> sisters_of(const std::string& machine) {
    for (const std::string& list : read_lists().sisters) {
        std::vector<std::string> names = words_of(list);
        if (std::erase(names, machine) > 0) return names;
    }
    return {};
}

Machines fitted_machines(const std::string& left_out) {
    static std::mutex reading;
    static std::map<std::string, Cluster> read;  // by path
    const std::lock_guard lock(reading);
    Machines found;
    for (const std::string& name : measured_machines()) {
        if (name == left_out || !has_preset(PresetKind::cluster, name)) continue;
        const auto path = preset_path(PresetKind::cluster, name);
        auto known = read.find(path);
        if (known == read.end()) {
            Layers layers;
            lay_cluster(layers, path);
            known = read.emplace(path, std::move(layers.experiment.cluster)).first;
        }
        if (known->second.fitted) found.push_back(known->second);
    }
    return found;
}

std::string maker_of(const Gpu& gpu) {
    static const std::vector<std::string> words = read_lists().other_makers;
    for (const std::string& word : words) {
        const auto equals = word.find('=');
        const std::string_view named = std::string_view(word).substr(0, equals);
        if (has(gpu.name, named) || has(gpu.aliases, named)) return word.substr(equals + 1);
    }
    return "NVIDIA";
}

std::string unmeasured_maker(const Gpu& gpu) {
    static const std::set<std::string> measured = [] {
        std::set<std::string> makers;
        for (const Cluster& machine : fitted_machines({})) makers.insert(maker_of(machine.gpu));
        return makers;
    }();
    const std::string maker = maker_of(gpu);
    return measured.empty() || measured.contains(maker) ? "" : maker;
}

bool any_of_its_kind(const Machines& machines, const Cluster& cluster) {
    return std::ranges::any_of(at_least(same_generation, machines, cluster), [&](const Cluster& c) {
        return maker_of(c.gpu) == maker_of(cluster.gpu);
    });
}

Machines of_like_rate(const Machines& from, const Gpu& to) {
    constexpr double same = 0.05;  // difference of logarithms
    double least = INFINITY;
    for (const Cluster& machine : from) least = std::min(least, rate_distance(machine.gpu, to));
    return where(from, [&](const Cluster& c) { return rate_distance(c.gpu, to) < least + same; });
}

const Machines& Sources::of(std::string_view path) const {
    if (is_of_library(path)) return library;
    return path.starts_with("cluster.link.") ? linked : is_narrow(path) ? narrow : near;
}

Sources sources_for(const Cluster& to, const Machines& all) {
    Sources from{all, with_kernels_like(all, to), {}, with_links_like(all, to), {}};
    from.narrow = with_types_like(all, from.near, to);
    from.library = with_library_of(all, from.linked, to);
    return from;
}

}  // namespace stepcast
