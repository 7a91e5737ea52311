#include "import/machine/machine.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/experiment.h"
#include "model/input/fields.h"
#include "model/input/presets.h"
#include "model/machine/cluster_file.h"
#include "model/machine/gpu_name.h"

namespace stepcast {
namespace {

// GPUs by the names and numbers in descriptions of machines: model/presets/devices.toml.
struct KnownDevice {
    KEY(std::string, name, {}, "all of whose words a description has");
    KEY(std::vector<std::string>, pci, {}, "\"10de:2330\"");
    KEY(int, sm, 0, "compute capability");
    KEY(int, nvlinks, 0, "of a device");
    KEY(int, bridged, 0, "of a card with its optional bridges");
    KEY(BytesPerSecond, nvlink, BytesPerSecond(25e9), "of one link and direction");
    KEY(std::string, cluster, {},
        "preset with its datasheet, and with constants where it was measured");
};
struct DeviceFile {
    KEY_NAMED(std::vector<KnownDevice>, devices, {}, "device", "");
};
using Device = std::optional<KnownDevice>;  // empty: unknown

// Words in lower case. Letters and digits of a name stay together, but "RTX3090" becomes two words,
// like "RTX 3090". The memory is one word however it is written: "40gb".
std::set<std::string> name_words(const std::string& text) {
    std::set<std::string> words;
    if (const auto size = gigabytes_in(text)) words.insert(fmt::format("{:.0f}gb", *size));
    std::string word;
    for (const char raw : text + " ") {
        const char c = lower_case(raw);
        if (is_letter_or_digit(c)) {
            word += c;
            if (word == "rtx") words.insert(std::exchange(word, ""));
            continue;
        }
        if (!word.empty()) words.insert(std::exchange(word, ""));
    }
    return words;
}

std::vector<KnownDevice> known_devices() {
    return read_table<DeviceFile>(home_folder() + "/model/presets/devices.toml",
                                  "a file of devices")
        .devices;
}

Device device_named(const std::string& text) {
    const auto words = name_words(text);
    Device best;
    std::size_t most = 0;
    for (const KnownDevice& device : known_devices()) {
        const auto needed = name_words(device.name);
        if (needed.size() <= most || !std::ranges::includes(words, needed)) continue;
        most = needed.size();
        best = device;
    }
    return best;
}

// Of the variants of a device, which have its words and more, the one with this memory; `usual` if
// none has.
KnownDevice variant_with(const KnownDevice& usual, const std::function<bool(Bytes)>& has_memory) {
    const auto memory = [](const KnownDevice& d) { return read_cluster(d.cluster).gpu.memory; };
    if (has_memory(memory(usual))) return usual;
    const auto words = name_words(usual.name);
    for (const KnownDevice& device : known_devices())
        if (std::ranges::includes(name_words(device.name), words) && has_memory(memory(device)))
            return device;
    return usual;
}

Device device_of_pci(const std::string& id) {
    for (const KnownDevice& device : known_devices())
        if (contains(device.pci, id)) return device;
    return std::nullopt;
}

// The only device of this capability with that many NVLinks, else the only one of this capability;
// empty if several fit. 0 = unknown.
Device device_of_links(int sm, int nvlinks) {
    for (const bool by_links : {true, false}) {
        if (sm == 0 && (nvlinks == 0 || !by_links)) break;
        std::vector<KnownDevice> fitting = known_devices();
        std::erase_if(fitting, [&](const KnownDevice& d) {
            return (sm > 0 && d.sm != sm) || (by_links && d.nvlinks != nvlinks);
        });
        // Variants of one device differ in clocks and memory; the first listed is the usual one.
        const auto family = [](const KnownDevice& d) { return d.name.substr(0, d.name.find(' ')); };
        if (!fitting.empty() && std::ranges::all_of(fitting, [&](const auto& d) {
                return family(d) == family(fitting.front());
            }))
            return fitting.front();
    }
    return std::nullopt;
}

// Finds the device by an option, a name, a PCI number, or links and capability that only one device
// has.
Device find_device(const Machine& m, const std::string& gpu, std::string& how) {
    const std::string told = !gpu.empty() ? gpu : m.gpu;
    if (!told.empty()) {
        if (auto device = device_named(told)) {
            const auto size = gigabytes_in(told);
            if (!size && m.memory == Bytes(0)) return device;
            return variant_with(*device, [&](Bytes memory) {
                return m.memory > Bytes(0) ? std::abs(memory / m.memory - 1) < 0.1
                                           : is_called(memory, *size);
            });
        }
        try {
            return KnownDevice{.cluster = preset_path(PresetKind::cluster, told)};
        } catch (const ConfigError&) {
            return std::nullopt;
        }
    }
    if (!m.pci.empty())
        if (auto device = device_of_pci(m.pci)) {
            how = " (its PCI number " + m.pci + ")";
            return device;
        }
    // NVLink bridges of PCIe cards: several devices have the same number of links
    if (m.paired() && m.sm == 0) return std::nullopt;
    how = " (guessed from its links)";
    const int direct = m.joint_links();  // of a mesh, or many times those that lead to a switch
    if (!m.switched && direct > m.nvlinks)
        if (auto device = device_of_links(m.sm, direct)) return device;
    return device_of_links(m.sm, m.nvlinks);
}

// A cluster that states no number of NICs has one per GPU.
void assume_nics(const Machine& m, const Cluster& c, std::vector<std::string>& report) {
    if (m.nics > 0) return;
    report.push_back("assumed: a NIC of " + to_string(c.inter.bandwidth) + " for each GPU; " +
                     (m.from.empty() ? "no file names one" : "the files name none") +
                     "; network.nics, link.inter.bandwidth");
}

// Links to a switch appear as links to every other GPU, many times those that a GPU has. Where
// these suffice, they are direct.
Fabric fabric_of(const Machine& m, const KnownDevice& device) {
    if (m.nvlinks == 0) return Fabric::pcie;
    if (m.switched || m.joints.empty()) return Fabric::nvswitch;
    const int limit = std::max(device.nvlinks, device.bridged), direct = m.joint_links();
    const bool even =
        std::ranges::all_of(m.joints, [&](double links) { return links == m.joints.front(); });
    if (!m.paired() && direct > (limit > 0 ? limit : even ? 0 : direct)) return Fabric::nvswitch;
    // all links of two GPUs: alike
    if (m.gpus == 2) return direct < limit ? Fabric::nvlink_mesh : Fabric::nvswitch;
    bool neighbours = m.paired();
    for (int pair = 0; pair < m.gpus; pair += 2)
        neighbours = neighbours && m.joint(pair, pair + 1) > 0;
    return neighbours ? Fabric::nvlink_pairs : Fabric::nvlink_mesh;
}

// The links of GPUs in islands, each with a switch of its own, as direct ones: a GPU's links shared
// out equally between the others of its island. Empty: the GPUs are in no such islands.
std::vector<double> links_of_islands(const Machine& m) {
    if (m.joints.empty()) return {};  // no file says which GPUs are joined
    std::vector<double> shared = m.joints;
    auto links = shared.begin();
    for (int a = 0; a < m.gpus; ++a)
        for (int b = a + 1; b < m.gpus; ++b, ++links) {
            if (*links == 0) continue;
            int others = 0;
            for (int c = 0; c < m.gpus; ++c) {
                const bool near_a = c == a || m.joint(a, c) > 0,
                           near_b = c == b || m.joint(b, c) > 0;
                if (near_a != near_b || *links != m.nvlinks) return {};
                others += c != a && near_a;
            }
            *links = real(m.nvlinks) / others;
        }
    return shared;
}

std::string span_of(BytesPerSecond least, BytesPerSecond most) {
    return least == most ? to_string(most) : to_string(least) + " to " + to_string(most);
}

// Sets the direct links, and says what they carry.
void lay_mesh(const Machine& m, const KnownDevice& device, BytesPerSecond pcie, Cluster& c,
              std::vector<std::string>& report) {
    c.intra.bandwidth = m.joint_links() * device.nvlink;
    c.intra.mesh = m.joints;
    const auto joined = std::ranges::count_if(m.joints, [](double links) { return links > 0; });
    double least = m.joint_links(), most = 0;
    for (const double links : m.joints)
        if (links > 0) least = std::min(least, links), most = std::max(most, links);
    const bool whole = joined == static_cast<long>(m.joints.size());
    if (!whole && !mesh_connected(c)) c.intra.host_bandwidth = pcie;
    add_line(
        report,
        "links: direct, without a switch, between {} of {} pairs of GPUs: {} a pair, {} a GPU{}",
        joined, m.joints.size(), span_of(least * device.nvlink, most * device.nvlink),
        to_string(c.intra.bandwidth),
        whole ? ""
        : c.intra.host_bandwidth > BytesPerSecond(0)
            ? "; others reach each other through the host"
            : "; others reach each other over a third GPU");
}

void warn_of_links(const Machine& m, const KnownDevice& device, const Cluster& known, Fabric fabric,
                   std::vector<std::string>& report) {
    if (fabric == Fabric::nvlink_mesh || m.paired()) return;
    if (m.nvlinks == 0 && device.nvlinks > 0)
        add_line(report,
                 "warning: 0 NVLinks of a GPU, where {} has {}: another GPU (--gpu)? "
                 "nvidia-smi topo -mp shows none, topo -m does",
                 known.gpu.name, device.nvlinks);
    else if (m.nvlinks != device.nvlinks && (device.bridged == 0 || m.nvlinks != device.bridged))
        add_line(report, "warning: {} NVLinks of a GPU, where {} has {}: another GPU (--gpu)?",
                 m.nvlinks, known.gpu.name, device.nvlinks);
    if (fabric == Fabric::nvswitch && contains(m.joints, 0.0))
        report.push_back(
            "warning: more NVLinks than a GPU has, but not between all pairs: taken as one switch, "
            "which is too fast for the others");
}

void assume_links(const Machine& m, const Cluster& known, Cluster& c,
                  std::vector<std::string>& report) {
    c.fabric = known.fabric;
    report.push_back("assumed: the links of " + known.name + "; " +
                     (m.from.empty() ? "no file states it" : "the files do not state it"));
    c.network.rails = known.network.rails || m.nics >= c.gpus_per_node;
    assume_nics(m, c, report);
}

BytesPerSecond rate_of_pcie(const Machine& m, const Cluster& known) {
    if (m.pcie > BytesPerSecond(0)) return m.pcie;
    return known.fabric == Fabric::pcie ? known.intra.bandwidth : BytesPerSecond(24e9);
}

// Sets the links inside a node.
void lay_node(const Machine& m, const KnownDevice& device, const Cluster& known, Cluster& c,
              std::vector<std::string>& report) {
    c.fabric = fabric_of(m, device);
    Machine laid = m;
    const bool gaps = contains(m.joints, 0.0);
    if (auto links = links_of_islands(m); c.fabric == Fabric::nvswitch && gaps && !links.empty()) {
        c.fabric = Fabric::nvlink_mesh;
        laid.joints = std::move(links);
        report.emplace_back(
            "islands of GPUs, each with a switch of its own: taken as direct links of equal rates "
            "between the GPUs of an island");
    }
    warn_of_links(m, device, known, c.fabric, report);
    const BytesPerSecond pcie = rate_of_pcie(m, known);
    c.intra.bandwidth = c.fabric == Fabric::nvswitch ? m.nvlinks * device.nvlink : pcie;
    c.intra.pair_bandwidth =
        c.fabric == Fabric::nvlink_pairs ? m.nvlinks * device.nvlink : BytesPerSecond(0);
    c.intra.mesh.clear();
    c.intra.host_bandwidth = BytesPerSecond(0);
    if (c.fabric == Fabric::nvlink_mesh) lay_mesh(laid, device, pcie, c, report);
    const bool through_host = !joins_gpus(c.fabric) || c.intra.host_bandwidth > BytesPerSecond(0);
    if (m.pcie == BytesPerSecond(0) && through_host)
        report.push_back("assumed: PCIe " + to_string(pcie) +
                         ", which the files do not state; link.intra." +
                         (c.fabric == Fabric::nvlink_mesh ? "host_bandwidth" : "bandwidth"));
    c.intra.socket_bandwidth = through_host ? m.socket : BytesPerSecond(0);
}

void lay_links(const Machine& m, const KnownDevice& device, const Cluster& known, Cluster& c,
               std::vector<std::string>& report) {
    c.network.nics = m.nics;
    if (!m.links_told) return assume_links(m, known, c, report);
    lay_node(m, device, known, c, report);
    c.network.rails = m.nics >= c.gpus_per_node;
    c.inter.bandwidth = m.nic > BytesPerSecond(0) ? m.nic : known.inter.bandwidth;
    assume_nics(m, c, report);
    if (m.nic == BytesPerSecond(0) && m.nics > 0)
        report.push_back("assumed: a NIC of " + to_string(c.inter.bandwidth) + " as in " +
                         known.name + "; the files do not state it; link.inter.bandwidth");
}

bool alike(double a, double b) { return std::abs(a - b) <= 0.1 * b; }

[[noreturn]] void refuse_device(const Machine& m, const std::string& name, const std::string& gpu) {
    const std::string told = !gpu.empty() ? gpu : m.gpu;
    if (!told.empty())
        throw ConfigError(
            "--gpu " + told +
            ": no preset has its datasheet; expected a device of these (stepcast list presets), or "
            "a cluster file with gpu.peak, gpu.memory and gpu.memory_bandwidth written by hand");
    const std::string from = m.from.empty() ? name : m.from.front();
    if (has(from, "xGMI"))
        throw ConfigError(
            from +
            ": which GPU is not stated; expected --gpu NAME, for example --gpu MI300X, or the "
            "output of rocm-smi --showproductname or lspci -nn as well");
    refuse(
        "{}: which GPU is not stated ({} NVLinks, sm {}{}); expected --gpu NAME, for "
        "example --gpu H100, or the output of nvidia-smi -q -x or lspci -nn as well",
        from, m.nvlinks, m.sm, m.pci.empty() ? "" : ", PCI " + m.pci);
}

}  // namespace

Machine usual_node() {
    Machine m;
    m.gpus = m.nics = 8;
    m.links_told = false;
    m.notes = {
        "assumed: a node of 8 GPUs with a NIC each; gpus_per_node, network.nics, "
        "link.intra.bandwidth and link.inter.bandwidth say "
        "otherwise"};
    return m;
}

double Machine::joint(int a, int b) const {
    const int low = std::min(a, b), high = std::max(a, b),
              at = low * gpus - low * (low + 1) / 2 + high - low - 1;
    return a == b || at >= as_int(joints.size()) ? 0 : joints[as_index(at)];
}

int Machine::joint_links() const {
    double most = 0;
    for (int a = 0; a < gpus; ++a) {
        double of_one = 0;
        for (int b = 0; b < gpus; ++b) of_one += joint(a, b);
        most = std::max(most, of_one);
    }
    return as_int(std::lround(most));
}

bool Machine::paired() const {
    for (int a = 0; a < gpus; ++a) {
        int partners = 0;
        for (int b = 0; b < gpus; ++b) partners += joint(a, b) > 0 ? 1 : 0;
        if (partners != 1) return false;
    }
    return gpus > 2 && std::ranges::all_of(
                           joints, [&](double links) { return links == 0 || links == nvlinks; });
}

void Machine::count_devices(int listed, const std::string& path) {
    if (gpus == 0) {
        gpus = listed;
        links_told = false;
    } else if (gpus != listed) {
        add_line(notes, "{}: {} GPUs, where another file has {}, which are taken", path, listed,
                 gpus);
    }
}

namespace {

// A name that states another memory than the device has is that of another part, whose rate of
// memory nobody states.
void check_memory(const Machine& m, const Cluster& known, const std::string& gpu) {
    const std::string told = !gpu.empty() ? gpu : m.gpu;
    const auto size = gigabytes_in(told);
    if (!size || m.memory > Bytes(0) || is_called(known.gpu.memory, *size)) return;
    refuse(
        "--gpu {}: no datasheet is known of one with {:.0f} GB; {} of {} has {}. Expected a name "
        "with that memory, or "
        "a cluster file with preset = \"{}\", gpu.name, gpu.memory and gpu.memory_bandwidth",
        told, *size, known.gpu.name, known.name, to_string(known.gpu.memory), known.name);
}

}  // namespace

MachineFile cluster_of_machine(const Machine& m, const std::string& name, const std::string& gpu) {
    MachineFile file;
    file.report = m.from;
    std::string how;
    const Device device = find_device(m, gpu, how);
    if (!device) refuse_device(m, name, gpu);
    const Cluster known = read_cluster(device->cluster);
    check_memory(m, known, gpu);
    Cluster c = known;
    c.name = name;
    c.nodes = 1;
    c.gpus_per_node = m.gpus;
    if (m.memory > Bytes(0)) c.gpu.memory = m.memory;
    if (!alike(c.gpu.memory.si(), known.gpu.memory.si()))
        add_line(file.report,
                 "assumed: memory of {} at the rate of {}, which has {}; gpu.memory_bandwidth",
                 to_string(c.gpu.memory), known.gpu.name, to_string(known.gpu.memory));
    lay_links(m, *device, known, c, file.report);
    const bool measured = known.fitted || !known.inherits.empty();
    const bool same = measured && c.fabric == known.fabric && c.intra.mesh == known.intra.mesh &&
                      c.gpus_per_node == known.gpus_per_node &&
                      alike(c.intra.bandwidth.si(), known.intra.bandwidth.si());
    add_line(file.report, "device: {} by its datasheet: {}{}", known.gpu.name, known.name, how);
    c.source = fmt::format("{}datasheet: {}", m.from.empty() ? "" : "described by its own files; ",
                           known.name);
    std::string head;
    for (const auto& line : m.from) head += "# " + line + "\n";
    for (const auto& line : m.notes) {
        head += "# " + line + "\n";
        file.report.push_back(line);
    }
    if (same) {
        file.report.push_back("constants: those of " + known.name +
                              ", the same device, fabric and links");
        file.text = head + write_cluster(c);
        return file;
    }
    file.report.push_back(
        "constants: priors, the median of the fitted machines; nothing was fitted to this one");
    file.text = head + write_nameplate(c);
    return file;
}

}  // namespace stepcast
