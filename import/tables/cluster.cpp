#include "import/tables/cluster.h"

#include <algorithm>
#include <filesystem>
#include <regex>

#include <fmt/format.h>

#include "import/tables/row_parts.h"
#include "measured/read.h"
#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"
#include "model/input/presets.h"
#include "model/machine/gpu_name.h"

namespace stepcast {
namespace {

// Sets the memory size that the text states, where it differs from that of the preset's device.
void set_memory(Cluster& cluster, const std::string& gpu, Shelf& shelf,
                std::vector<std::string>& assumptions) {
    const auto size = gigabytes_in(gpu);
    const auto family = device_family(gpu, shelf);
    if (!size) {
        assumptions.push_back(fmt::format("memory of {} not stated: {} of {}", family,
                                          to_string(cluster.gpu.memory), cluster.name));
        return;
    }
    const auto memory = parse_bytes(fmt::format("{} GiB", *size));
    constexpr double of_the_host = 3;  // "GH200 480GB" names the memory of the CPU on its board
    if (memory > of_the_host * cluster.gpu.memory) {
        assumptions.push_back(fmt::format("{} GB are not a {}'s: {} of {}", *size, family,
                                          to_string(cluster.gpu.memory), cluster.name));
        return;
    }
    const auto& sold = shelf.sources("memory");
    const auto rule = std::ranges::find_if(sold, [&](const SourceRow& m) {
        return m.at("family") == family && m.at("size") == std::to_string(static_cast<int>(*size));
    });
    if (is_called(cluster.gpu.memory, *size)) return;
    cluster.gpu.memory = memory;
    if (rule == sold.end())
        return assumptions.push_back(
            fmt::format("{} of {} GB: as stated, at the rate of {}", family, *size, cluster.name));
    cluster.gpu.memory_bandwidth = parse_bandwidth(rule->at("bandwidth"));
    assumptions.push_back(
        fmt::format("{} of {} GB: memory at {}", family, rule->at("size"), rule->at("bandwidth")));
}

// A board with a lower power limit than the preset's runs at a lower clock: sim/costs/clock.h.
void set_power(Cluster& cluster, const std::string& gpu, std::vector<std::string>& assumptions) {
    const auto watts = number_before(gpu, " W");
    if (!watts || *watts >= cluster.power.limit) return;
    assumptions.push_back(
        fmt::format("a board of {} W instead of {} W", *watts, cluster.power.limit));
    cluster.power.limit = *watts;
}

// NVLink domains beyond one node are built from trays of at most so many ranks
constexpr int ranks_of_a_tray = 8;

struct Nics {
    double bits = 0;  // Gbit/s, of the whole node or of one NIC
    int count = 0;    // 0: `bits` is the rate of the whole node
    bool per_rank = false;
};

// "8-GPU node, 4 Omni-Path 100 Gb/s links per node" gives 4: the number at the start of the clause
// with the rate.
std::optional<double> links_in(const std::string& text, std::size_t rate) {
    const auto before = text.find_last_of(",;", rate);
    return number_after(text, before == std::string::npos ? 0 : before + 1);
}

// "8x 200 Gb/s" or "8x200 Gb/s" gives 8. `end` is where the rate ends.
std::optional<double> times_before(const std::string& text, std::size_t end) {
    const auto before = text.find_last_not_of("0123456789.", end - 1);
    const auto x = before == std::string::npos ? before : text.find_last_not_of(' ', before);
    return x == std::string::npos || text[x] != 'x' ? std::nullopt : number_before(text, x);
}

// Understands "800 Gb/s per node", "4 Omni-Path 100 Gb/s links per node", "8x 200 Gb/s per node",
// "400 Gb/s RDMA per GPU", "8x400G IB per node", "8x ConnectX-7 NDR 400G" and "8x HDR200 IB".
std::optional<Nics> nics_in(const std::string& text) {
    if (const auto at = text.find(" Gb/s"); at != std::string::npos) {
        const auto clause = text.substr(at, text.find_first_of(",;", at) - at);
        if (const auto bits = number_before(text, at)) {
            if (const auto links = links_in(text, at); links && has(clause, "links per node"))
                return Nics{*bits, count_of(*links), false};
            if (has(clause, "per node"))
                return Nics{*bits, count_of(times_before(text, at).value_or(0)), false};
            if (has(clause, "per GPU")) return Nics{*bits, 0, true};
        }
    }
    for (auto at = text.find('x', 1); at != std::string::npos; at = text.find('x', at + 1)) {
        const auto count = number_before(text, at);
        if (!count) continue;
        const auto clause = text.substr(at, text.find_first_of(",;", at) - at);
        for (std::size_t next = 1; next < clause.size(); ++next)
            if (const auto bits = number_after(clause.substr(next), 0); bits && *bits >= 100)
                return Nics{*bits, count_of(*count), false};
    }
    return std::nullopt;
}

// "100Gb/s", "100 Gbit/s", "100Gbps" and "8 x 100 Gb/s" as nics_in() reads them.
std::string spelled_out(const std::string& interconnect) {
    static const std::regex rate(R"((\d)\s*(Gb/s|Gbps|Gbit/s|GbE)(?!\w))"),
        times(R"((\d)\s+x\s+(\d))");
    return std::regex_replace(std::regex_replace(interconnect, times, "$1x $2"), rate, "$1 Gb/s");
}

// A rate whose NICs nics_in() could not tell.
std::string unread_rate(const std::string& interconnect) {
    static const std::regex rate(R"(\d\s*(Gb|Tb|G\b))");
    if (!std::regex_search(interconnect, rate)) return "";
    return fmt::format(
        "\"{}\" is not understood (expected for example 400 Gb/s per GPU, 800 Gb/s per node or 8x "
        "200 Gb/s per node), so ",
        interconnect);
}

// The networks of model/presets/networks that the cell names.
void take_named_networks(Cluster& cluster, const std::string& interconnect, Shelf& shelf,
                         std::vector<std::string>& assumptions) {
    for (const NamedNetwork& network : shelf.networks())
        for (const auto& name : network.names)
            if (has(lower_case(interconnect), name)) {
                Experiment e;
                e.cluster = std::move(cluster);
                for (const Override& one : network.keys) set_key(e, one);
                cluster = std::move(e.cluster);
                if (cluster.fitted)  // its link constants were fitted on another network
                    std::erase_if(cluster.fitted->parameters, [](const FittedParameter& p) {
                        return p.key.starts_with("link.inter.") || p.key.starts_with("network.");
                    });
                assumptions.push_back(fmt::format(
                    "network between nodes: {} of model/presets/networks", network.name));
            }
}

void set_network(Cluster& cluster, const std::string& interconnect, Shelf& shelf,
                 std::vector<std::string>& assumptions) {
    take_named_networks(cluster, interconnect, shelf, assumptions);
    const auto nics = nics_in(spelled_out(interconnect));
    const int there = cluster.network.nics > 0 ? cluster.network.nics : cluster.gpus_per_node;
    if (!nics) {
        const std::string unread = unread_rate(interconnect);
        assumptions.push_back(fmt::format("network between nodes{}: {}{} NICs of {} of {}",
                                          unread.empty() ? " not stated" : "", unread, there,
                                          to_string(cluster.inter.bandwidth), cluster.name));
        return;
    }
    constexpr double gigabit = 1e9 / 8;
    // Tables count the NICs of an ordinary node. In an NVLink domain of many nodes that means one
    // NIC per rank (nics = 0).
    const bool domain = cluster.network.nics == 0 && cluster.gpus_per_node > ranks_of_a_tray;
    if (nics->per_rank || (domain && nics->count > 0))
        cluster.network.nics = 0;
    else if (nics->count > 0)
        cluster.network.nics = nics->count;
    else
        assumptions.push_back(fmt::format("{} Gb/s of a node: over {} NICs as in {}", nics->bits,
                                          there, cluster.name));
    const double share = nics->per_rank || nics->count > 0 ? 1 : 1.0 / there;
    cluster.inter.bandwidth = BytesPerSecond(nics->bits * gigabit * share);
}

// A stated size of the node is used if smaller than the preset's.
void set_node(Cluster& cluster, const CaseRow& row, std::vector<std::string>& assumptions) {
    const auto stated = count_in(row, "gpus_per_node");
    if (!stated || *stated == cluster.gpus_per_node) return;
    if (*stated > cluster.gpus_per_node) {
        assumptions.push_back(fmt::format(
            "nodes of {} GPUs are stated: {} as in {}, whose fabric is not known to reach further",
            *stated, cluster.gpus_per_node, cluster.name));
        return;
    }
    cluster.network.nics = nics_of_part(cluster.network.nics, cluster.gpus_per_node, *stated);
    cluster.gpus_per_node = *stated;
    assumptions.push_back(fmt::format("nodes of {} GPUs, as stated", cluster.gpus_per_node));
    // A smaller board is no part of a larger one: its GPUs share their links evenly.
    if (cluster.fabric == Fabric::nvlink_mesh)
        cluster.intra.mesh.assign(
            as_index(cluster.gpus_per_node) * as_index(cluster.gpus_per_node - 1) / 2, 1);
}

// Fills whole nodes. If the ranks do not divide evenly, each node takes the largest number that
// does: 64 of the 72 ranks of a domain.
void set_size(Cluster& cluster, int ranks, std::vector<std::string>& assumptions) {
    const int whole = cluster.gpus_per_node;
    int each = std::min(ranks, whole);
    while (ranks % each != 0) --each;
    if (each < whole / 2 && ranks > whole)
        throw ConfigError(fmt::format("gpus: {} is no multiple of the {} of a node of {}", ranks,
                                      whole, cluster.name));
    if (ranks > whole && each != whole)
        assumptions.push_back(fmt::format("{} ranks on each node of {}", each, whole));
    cluster.network.nics = nics_of_part(cluster.network.nics, whole, each);
    if (ranks != rank_count(cluster)) cluster.gpu.rank_rates.clear();  // of the whole machine's
    cluster.gpus_per_node = each;
    cluster.nodes = ranks / each;
}

}  // namespace

// "NVIDIA RTX-6000 Ada (48 GB)" is " nvidia rtx 6000 ada 48 gb ", "8x H100SXM5" and "H100 x8" are
// " h100 sxm5 " and " h100 ".
static std::string words_of_gpu(const std::string& gpu) {
    static const std::regex count(R"(\b\d+ ?x\b|\b\d+x(?=[a-z])|\bx ?\d+\b)"),
        glued_count(R"((\d)x\d+\b)"), form(R"((\d)(sxm|pcie|nvl\b))"), blanks(" +");
    std::string words = " " + lower_case(gpu) + " ";
    for (char& c : words)
        if (!is_letter_or_digit(c)) c = ' ';
    words = std::regex_replace(std::regex_replace(words, count, " "), glued_count, "$1");
    return std::regex_replace(std::regex_replace(words, form, "$1 $2"), blanks, " ");
}

std::string device_family(const std::string& gpu, Shelf& shelf) {
    const std::string words = words_of_gpu(gpu);
    std::string best;
    std::size_t place = words.npos;
    for (const SourceRow& device : shelf.sources("device")) {
        const std::string& family = device.at("family");
        const std::size_t at = words.find(" " + family + " ");
        if (at == words.npos) continue;
        const auto length = [](const std::string& name) { return std::ranges::count(name, ' '); };
        if (best.empty() || length(family) > length(best) ||
            (length(family) == length(best) && at < place))
            best = family, place = at;
    }
    return best.empty() ? words.substr(1, words.find(' ', 1) - 1) : best;
}

std::string cluster_for(const std::string& gpu, Shelf& shelf) {
    const auto wanted = lower_case(gpu);
    std::string known;
    for (const auto& name : preset_names(PresetKind::cluster)) {
        const auto device = shelf.cluster(name).gpu.name;
        if (wanted == lower_case(name) || wanted == lower_case(device)) return name;
        if (!has(known + ",", device + ",")) known += (known.empty() ? "" : ", ") + device;
    }
    const auto family = device_family(gpu, shelf);
    for (const SourceRow& rule : shelf.sources("device"))
        if (family == rule.at("family") && has(wanted, rule.at("form")) &&
            has_preset(PresetKind::cluster, rule.at("cluster")))
            return rule.at("cluster");
    if (has_preset(PresetKind::cluster, gpu))  // by an alias
        return std::filesystem::path(preset_path(PresetKind::cluster, gpu)).stem().string();
    throw ConfigError("gpu: no cluster is known for \"" + gpu + "\"; expected one of " + known +
                      ", or name one with --cluster (stepcast import --gpu NAME --out FILE.toml "
                      "writes one where the datasheet is known)");
}

Cluster cluster_of_row(const CaseRow& row, int ranks, const std::string& named, Shelf& shelf,
                       std::vector<std::string>& assumptions) {
    const auto& gpu = row.cell("gpu");
    if (gpu.empty() && named.empty())
        throw ConfigError("gpu: missing; expected a device, or name a cluster with --cluster");
    const std::string device = states(row, "form") ? gpu + " " + row.cell("form") : gpu;
    Cluster cluster = shelf.cluster(named.empty() ? cluster_for(device, shelf) : named);
    if (gpu.empty()) assumptions.push_back("gpu not stated: " + cluster.gpu.name);
    const bool same_device =
        !gpu.empty() && device_family(gpu, shelf) == device_family(cluster.gpu.name, shelf);
    if (same_device) set_memory(cluster, gpu, shelf, assumptions);
    if (same_device) set_power(cluster, gpu, assumptions);
    set_node(cluster, row, assumptions);
    set_size(cluster, ranks, assumptions);
    if (cluster.nodes > 1 && (same_device || named.empty()))
        set_network(cluster, row.cell("interconnect"), shelf, assumptions);
    return cluster;
}

void add_machine(const std::string& cluster, const Cluster& own, int ranks,
                 std::vector<Override>& overrides, std::vector<std::string>& assumptions) {
    Cluster machine = cluster.empty() ? own : read_cluster(cluster);
    if (!cluster.empty()) overrides.push_back({"cluster.preset", cluster});
    if (ranks < 1 || ranks == rank_count(machine)) return;
    set_size(machine, ranks, assumptions);
    overrides.push_back({"cluster.nodes", std::to_string(machine.nodes)});
    overrides.push_back({"cluster.gpus_per_node", std::to_string(machine.gpus_per_node)});
    if (!machine.gpu.rank_rates.empty()) overrides.push_back({"cluster.gpu.rank_rates", "[]"});
}

}  // namespace stepcast
