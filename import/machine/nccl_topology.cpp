#include "import/machine/nccl_topology.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "import/machine/machine.h"
#include "import/machine/smi_listings.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

constexpr int deepest_topology = 64;

// pugixml does not expand entities of a document type, so the parsed text cannot outgrow its file.
pugi::xml_document parse(const std::string& text, const std::string& path) {
    pugi::xml_document document;
    if (const auto result = document.load_buffer(text.data(), text.size()); !result) {
        const auto line =
            1 +
            std::count(text.begin(),
                       text.begin() + std::min<std::ptrdiff_t>(
                                          result.offset, static_cast<std::ptrdiff_t>(text.size())),
                       '\n');
        refuse("{}:{}: {}", path, line, result.description());
    }
    return document;
}

BytesPerSecond gigabytes(double value) { return BytesPerSecond(value * 1e9); }

// "16.0 GT/s PCIe" with 16 lanes: 24 GB/s, as NCCL counts.
double pcie_gigabytes(const pugi::xml_node& pci) {
    const std::string speed = pci.attribute("link_speed").as_string();
    int width = pci.attribute("link_width").as_int();
    if (width <= 0) width = 16;
    double rate = 60;
    for (const auto& [word, value] :
         {std::pair{"2.5", 15.0}, {"5", 30.0}, {"8", 60.0}, {"16", 120.0}, {"32", 240.0}})
        if (speed.starts_with(word) && (speed.size() == std::string_view(word).size() ||
                                        speed[std::string_view(word).size()] == '.' ||
                                        speed[std::string_view(word).size()] == ' '))
            rate = value;
    return width * rate / 80;
}

struct Peer {
    std::string from, to;  // PCI addresses of two GPUs
    int links = 0;
};

struct Walk {
    int gpus = 0, sm = 0, links = 0, bare_nics = 0;
    bool amd = false;
    std::vector<std::string> addresses;  // of the GPUs
    std::vector<Peer> peers;
    double pcie = 0;
    bool to_switch = false;
    std::map<int, int> speeds;  // Mb/s -> NICs
    std::string device;         // PCI number of the first GPU
};

std::string address_of(std::string text) { return lower_case(std::move(text)); }

void add_pci(const pugi::xml_node& pci, Walk& w) {
    const std::string kind = pci.attribute("class").as_string();
    // Also AMD's display controllers and accelerators.
    if (begins_with_any(kind, {"0x0302", "0x0300", "0x0380", "0x1200"})) {
        ++w.gpus;
        w.addresses.push_back(address_of(pci.attribute("busid").as_string()));
        const std::string vendor = pci.attribute("vendor").as_string(),
                          device = pci.attribute("device").as_string();
        if (w.device.empty() && vendor.starts_with("0x") && device.starts_with("0x") &&
            device != "0x0000")
            w.device = vendor.substr(2) + ":" + device.substr(2);
        w.pcie = std::max(w.pcie, pcie_gigabytes(pci));
    }
    if (begins_with_any(kind, {"0x0207", "0x0200"}) && !pci.child("nic")) ++w.bare_nics;
}

void add_gpu(const pugi::xml_node& gpu, const std::string& path, Walk& w) {
    w.sm = std::max(w.sm, gpu.attribute("sm").as_int());
    w.amd = w.amd || gpu.attribute("gcn") || gpu.child("xgmi");
    long links = 0;
    for (const auto& link : gpu.children()) {
        const std::string to = link.attribute("tclass").as_string(), what = link.name();
        if ((what != "nvlink" && what != "xgmi") || to.starts_with("0x068001")) continue;
        links += link.attribute("count").as_int();
        if (to.starts_with("0x068000"))
            w.to_switch = true;
        else
            w.peers.push_back({address_of(gpu.parent().attribute("busid").as_string()),
                               address_of(link.attribute("target").as_string()),
                               link.attribute("count").as_int()});
    }
    if (links < 0 || links > most_nvlinks)
        refuse("{}: {} NVLinks of a GPU; expected at most {}", path, links, most_nvlinks);
    w.links = std::max(w.links, as_int(links));
}

void walk(const pugi::xml_node& node, int depth, const std::string& path, Walk& w) {
    if (depth > deepest_topology)
        throw ConfigError(path + ": nested deeper than 64 levels; expected NCCL's topology");
    for (const auto& child : node.children()) {
        const std::string name = child.name();
        if (name == "pci")
            add_pci(child, w);
        else if (name == "gpu")
            add_gpu(child, path, w);
        else if (name == "net")
            ++w.speeds[child.attribute("speed").as_int()];
        walk(child, depth + 1, path, w);
    }
}

// The direct links between each two GPUs. Both ends name a link, and a file that was cut may lack
// one.
void join_peers(const Walk& w, const std::string& path, Machine& machine) {
    if (w.to_switch || w.peers.empty()) return;
    for (const std::size_t a : indices_of(w.addresses))
        for (std::size_t b = a + 1; b < w.addresses.size(); ++b) {
            int there = 0, back = 0;
            for (const auto& [from, to, links] : w.peers) {
                if (from == w.addresses[a] && to == w.addresses[b]) there += links;
                if (from == w.addresses[b] && to == w.addresses[a]) back += links;
            }
            machine.joints.push_back(std::max(there, back));
        }
    if (std::ranges::all_of(machine.joints, [](double links) { return links == 0; }))
        throw ConfigError(path +
                          ": NVLinks lead to no GPU of the file; expected their target= among the "
                          "busid= of the GPUs");
}

// The speed of most; others are counted.
void take_nics(const Walk& w, Machine& machine) {
    machine.nics = w.bare_nics;
    if (w.speeds.empty()) return;
    const auto most =
        std::ranges::max_element(w.speeds, {}, [](const auto& s) { return s.second; });
    machine.nics = most->second;
    machine.nic = gigabytes((most->first > 0 ? most->first : 10000) / 8000.0);
    for (const auto& [other, count] : w.speeds)
        if (other != most->first) machine.other_nics += count;
}

double socket_gigabytes(const pugi::xml_node& cpu) {
    const std::string vendor = cpu.attribute("vendor").as_string();
    const int model = cpu.attribute("modelid").as_int();
    if (vendor == "AuthenticAMD") return 16;
    if (cpu.attribute("arch").as_string() == std::string("ppc64")) return 32;
    if (model >= 0xcf) return 40;  // Emerald Rapids
    if (model >= 0x8f) return 22;  // Sapphire Rapids
    return model >= 0x55 ? 10 : 6;
}

}  // namespace

void read_nccl_topology(const std::string& text, const std::string& path, Machine& machine) {
    const auto document = parse(text, path);
    if (document.child("graphs"))
        throw ConfigError(path +
                          ": holds NCCL's chosen rings, not the machine; expected the file of "
                          "NCCL_TOPO_DUMP_FILE");
    const auto system = document.child("system");
    if (!system) throw ConfigError(path + ": no element <system>; expected NCCL's topology");
    Walk w;
    walk(system, 0, path, w);
    if (w.gpus == 0)
        throw ConfigError(path +
                          ": no GPU in it; expected elements <pci> of class 0x0302.., 0x0300.., "
                          "0x0380.. or 0x1200..");
    machine.gpus = w.gpus;
    machine.sm = w.amd ? 0 : w.sm;  // RCCL counts its own
    if (machine.pci.empty()) machine.pci = w.device;
    machine.pcie = gigabytes(w.pcie);
    machine.switched = w.to_switch;
    join_peers(w, path, machine);
    machine.nvlinks =
        machine.joints.empty() ? w.links : static_cast<int>(std::ranges::max(machine.joints));
    const auto cpus = std::distance(system.children("cpu").begin(), system.children("cpu").end());
    machine.numa_nodes = as_int(cpus);
    if (cpus > 1) machine.socket = gigabytes(socket_gigabytes(system.child("cpu")));
    take_nics(w, machine);
    machine.links_told = w.sm > 0;
    if (w.sm == 0)
        machine.notes.push_back(path +
                                ": a template without gpu, net and nvlink elements: NVLink and NIC "
                                "speed are not stated");
    add_line(machine.from, "{}: {} GPUs{}, {}, PCIe {}, {} NICs ({}), {} sockets", path, w.gpus,
             machine.sm ? fmt::format(" of sm {}", w.sm) : "",
             w.links ? fmt::format("{} {} a GPU {}", w.links, w.amd ? "xGMI links" : "NVLinks",
                                   w.to_switch ? "to a switch" : "to other GPUs")
             : w.amd ? "no xGMI stated"
                     : "no NVLink stated",
             to_string(machine.pcie), machine.nics,
             w.speeds.empty() ? "speed not stated" : to_string(machine.nic), cpus);
}

void read_nvidia_smi(const std::string& text, const std::string& path, Machine& machine) {
    if (!has(text, '<') || text[text.find_first_not_of(" \t\r\n")] != '<')
        return read_smi_text(text, path, machine);
    const auto document = parse(text, path);
    const auto log = document.child("nvidia_smi_log");
    if (!log)
        throw ConfigError(path +
                          ": no element <nvidia_smi_log>; expected the output of nvidia-smi -q -x");
    int gpus = 0, parted = 0;
    for (const auto& gpu : log.children("gpu")) {
        parted += std::string_view(gpu.child("mig_mode").child("current_mig").text().as_string()) ==
                          "Enabled"
                      ? 1
                      : 0;
        const std::string name = gpu.child("product_name").text().as_string();
        if (gpus++ == 0)
            machine.gpu = name;
        else if (name != machine.gpu)
            add_line(machine.notes, "{}: {} and {}; the first is taken", path, name, machine.gpu);
        const std::string memory = gpu.child("fb_memory_usage").child("total").text().as_string();
        if (const long mib = std::atol(memory.c_str()); mib > 0)
            machine.memory = Bytes(real(mib) * 1048576);
    }
    if (gpus == 0) throw ConfigError(path + ": no GPU in it");
    machine.count_devices(gpus, path);
    if (parted > 0)
        add_line(machine.notes, "{}: MIG parts {} of the GPUs; they are taken whole", path, parted);
    add_line(machine.from, "{}: {} x {}, {}", path, gpus, machine.gpu, to_string(machine.memory));
}

}  // namespace stepcast
