#include "import/machine/smi_listings.h"

#include <algorithm>
#include <sstream>

#include "import/machine/machine.h"
#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

bool is_number(const std::string& word) {
    return !word.empty() && word.size() < 5 && std::ranges::all_of(word, is_digit);
}

// "    Product Name                  : NVIDIA A100" -> the value, if the line states `name`.
std::string stated(const std::string& line, std::string_view name) {
    const auto at = line.find(name), colon = line.find(':', at == std::string::npos ? 0 : at);
    if (at == std::string::npos || colon == std::string::npos) return "";
    const auto words = words_of(line.substr(colon + 1), " \t\r");
    return joined(words, " ");
}

// A row of the table that nvidia-smi prints by itself: "|   0  NVIDIA A100-SXM4-80GB   On  |
// 00000000:07:00.0 Off |  0 |".
std::string device_of_row(const std::string& line) {
    const auto words = words_of(line, " \t\r|");
    if (!line.starts_with("|") || words.size() < 4 || !is_number(words[0])) return "";
    const auto mode = std::find_if(words.begin() + 1, words.end(), [](const std::string& w) {
        return w == "On" || w == "Off" || w == "N/A";
    });
    if (mode == words.end() || mode + 1 == words.end() || !has(*(mode + 1), ":")) return "";
    return joined(std::vector(words.begin() + 1, mode), " ");
}

// "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-..)" of nvidia-smi -L.
std::string device_of_list(const std::string& line) {
    const auto colon = line.find(": "), end = line.find(" (UUID");
    const auto words = words_of(line, " \t\r:");
    const bool listed =
        words.size() > 2 && words[0] == "GPU" && is_number(words[1]) && end != std::string::npos;
    return listed && colon < end ? line.substr(colon + 2, end - colon - 2) : "";
}

std::string device_of(const std::string& line) {
    std::string name = stated(line, "Product Name");
    if (name.empty()) name = device_of_row(line);
    return name.empty() ? device_of_list(line) : name;
}

// "|  0MiB / 81920MiB |" or, below "FB Memory Usage", "Total : 81920 MiB".
long mebibytes(const std::string& line, bool below_memory) {
    if (below_memory) return std::atol(stated(line, "Total").c_str());
    const auto slash = line.find("MiB / ");
    return slash == std::string::npos ? 0 : std::atol(line.c_str() + slash + 6);
}

}  // namespace

void read_smi_text(const std::string& text, const std::string& path, Machine& machine) {
    std::istringstream lines(text);
    int gpus = 0, parted = 0;
    bool below_memory = false;
    for (std::string line; std::getline(lines, line);) {
        if (const std::string name = device_of(line); !name.empty()) {
            if (gpus++ == 0)
                machine.gpu = name;
            else if (name != machine.gpu)
                add_line(machine.notes, "{}: {} and {}; the first is taken", path, name,
                         machine.gpu);
        }
        if (has_all(line, {"MIG", "Device"})) ++parted;
        if (const long mib = mebibytes(line, below_memory && has(line, "Total"));
            mib > 0 && machine.memory == Bytes(0))
            machine.memory = Bytes(real(mib) * 1048576);
        below_memory =
            has(line, "FB Memory Usage") || (below_memory && !has_any(line, {"Total", "Used"}));
    }
    if (gpus == 0)
        throw ConfigError(path +
                          ": names no GPU; expected the output of nvidia-smi, nvidia-smi -L, -q or "
                          "-q -x of a node with its driver");
    machine.count_devices(gpus, path);
    if (machine.gpu.ends_with("..."))
        add_line(machine.notes,
                 "{}: nvidia-smi cut the name to \"{}\"; --gpu or nvidia-smi -L show it whole",
                 path, machine.gpu);
    if (parted > 0)
        machine.notes.push_back(path + ": MIG parts some of the GPUs; they are taken whole");
    add_line(machine.from, "{}: {} x {}{}", path, gpus, machine.gpu,
             machine.memory > Bytes(0) ? ", " + to_string(machine.memory) : "");
}

namespace {

using PairTable = std::vector<std::vector<std::string>>;  // of pairs of GPUs

// The square below a title: a header of the devices, then a row for each.
PairTable table_below(const std::string& text, std::string_view title, const std::string& path) {
    const auto at = text.find(title);
    if (at == std::string::npos) return {};
    std::istringstream lines(
        text.substr(text.find('\n', at) == std::string::npos ? text.size() : text.find('\n', at)));
    PairTable table;
    std::vector<std::string> columns;
    for (std::string line; std::getline(lines, line);) {
        auto words = words_of(line, " \t\r");
        if (words.empty() && columns.empty()) continue;
        if (columns.empty()) {
            columns = words;
            continue;
        }
        if (words.size() != columns.size() + 1 || !contains(columns, words[0])) break;
        words.erase(words.begin());
        table.push_back(std::move(words));
    }
    if (table.empty() || table.size() != columns.size())
        refuse("{}: {} rows below \"{}\" for {} GPUs; expected the whole table", path, table.size(),
               title, columns.size());
    return table;
}

// Below the title that rocm-smi or amd-smi gives it.
PairTable table_of(const std::string& text, std::initializer_list<const char*> titles,
                   const std::string& path) {
    for (const char* title : titles)
        if (PairTable table = table_below(text, title, path); !table.empty()) return table;
    return {};
}

bool is_link(const std::string& type) {
    return type == "XGMI" || type.starts_with("PCI") || type == "N/A" || type == "UNKNOWN";
}

std::string name_of_card(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        for (const char* key : {"Card series", "Card Series", "MARKET_NAME", "Market Name"})
            if (const std::string name = stated(line, key); !name.empty()) return name;
    return "";
}

}  // namespace

// Hops of 1 are direct; the tables tell no number of links, so each pair has one. AMD's GPUs have
// no switch between them.
void read_rocm_smi(const std::string& text, const std::string& path, Machine& machine) {
    const PairTable types = table_of(text, {"Link Type between two GPUs", "LINK TYPE TABLE"}, path),
                    hops = table_of(text, {"Hops between two GPUs", "HOPS TABLE"}, path);
    if (types.empty())
        throw ConfigError(path +
                          ": without the types of links; expected the output of rocm-smi "
                          "--showtopo or amd-smi topology");
    machine.gpus = as_int(types.size());
    bool told_links = false;
    int far = 0;
    for (const std::size_t a : indices_of(types))
        for (std::size_t b = a + 1; b < types.size(); ++b) {
            const std::string& type = types[a][b];
            const bool xgmi = type == "XGMI",
                       direct = hops.size() != types.size() || hops[a][b] == "1";
            if (!is_link(type))
                refuse("{}: \"{}\" between GPU{} and GPU{} is no link; expected XGMI or PCIE", path,
                       type, a, b);
            const bool joined = xgmi && direct;
            far += xgmi && !direct ? 1 : 0;
            told_links |= joined;
            machine.joints.push_back(joined ? 1 : 0);
        }
    machine.links_told = true;
    machine.nvlinks = told_links ? 1 : 0;
    if (machine.gpu.empty()) machine.gpu = name_of_card(text);
    if (told_links)
        machine.notes.push_back(
            path + ": one xGMI link between each two GPUs assumed; the number is not stated");
    if (far > 0)
        add_line(machine.notes, "{}: {} pairs reach each other over xGMI in several hops", path,
                 far);
    add_line(machine.from, "{}: {} GPUs, {}", path, machine.gpus,
             told_links ? "xGMI between them" : "no xGMI");
}

std::string other_listing(const std::string& text) {
    struct Listing {
        std::string_view sign, also, what;
    };
    constexpr Listing listings[] = {
        {"CA type:", "Number of ports:", "ibstat, which describes the network cards only"},
        {"hca_id:", "transport:", "ibv_devinfo, which describes the network cards only"},
        {"= Status Ok", "GPU0",
         "nvidia-smi topo -p2p, which says what is allowed and names no links"},
        {"ROCm System Management Interface", "",
         "rocm-smi without --showtopo, which names no links"},
        {"amd-smi", "AMD-SMI", "amd-smi without topology, which names no links"},
        {"NUMA node(s):", "Thread(s) per core:", "lscpu, which describes the processors only"},
        {"node distances:", "available:",
         "numactl --hardware, which describes the processors only"},
        {"NodeName=", "Gres=",
         "Slurm's description of a node, which names neither device nor links"},
        {"HostBridge", "NUMANode", "lstopo, which names no NVLink"},
    };
    for (const Listing& listing : listings)
        if (has(text, listing.sign) && has(text, listing.also)) return std::string(listing.what);
    return "";
}

}  // namespace stepcast
