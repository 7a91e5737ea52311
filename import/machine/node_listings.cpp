#include "import/machine/node_listings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "import/machine/machine.h"
#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

constexpr int most_columns = 512;
constexpr int most_of_one = 18;  // NVLinks of one GPU, up to B300

bool is_gpu(const std::string& name) {
    return name.starts_with("GPU") && name.size() > 3 && is_digit(name[3]);
}

// Takes one cell off the start of `text`. Cells may touch where columns were cut.
std::string take_cell(std::string& text) {
    text.erase(0, text.find_first_not_of(" \t"));
    for (const char* word : {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"})
        if (text.starts_with(word)) {
            text.erase(0, std::string_view(word).size());
            return word;
        }
    if (!text.starts_with("NV")) return "";
    std::size_t end = 2;
    while (end < text.size() && is_digit(text[end])) ++end;
    const auto cell = text.substr(0, end);
    text.erase(0, end);
    return cell;
}

int nvlinks_in(const std::string& cell) {
    return cell.starts_with("NV") ? std::atoi(cell.c_str() + 2) : 0;
}

struct Matrix {
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;  // of the GPUs
    std::set<std::string> numa;
};

Matrix read_matrix(const std::string& text, const std::string& path) {
    constexpr std::array beside{"CPU", "NUMA"};  // "CPU Affinity", "NUMA Affinity"
    Matrix m;
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        const auto words = words_of(line, " \t");
        if (words.empty() || !is_gpu(words[0])) continue;
        if (m.columns.empty()) {
            m.columns.assign(words.begin(), std::ranges::find_first_of(words, beside));
            if (m.columns.size() > most_columns)
                refuse("{}:{}: {} columns; expected at most {}", path, number, m.columns.size(),
                       most_columns);
            continue;
        }
        auto rest = line.substr(line.find(words[0]) + words[0].size());
        auto& row = m.rows.emplace_back();
        while (row.size() < m.columns.size()) {
            row.push_back(take_cell(rest));
            if (nvlinks_in(row.back()) > most_nvlinks)
                refuse("{}:{}: {} of {}; expected at most {} NVLinks of a GPU", path, number,
                       row.back(), words[0], most_nvlinks);
            if (row.back().empty())
                refuse(
                    "{}:{}: column {} of {} is no link; expected X, NV#, PIX, PXB, "
                    "PHB, NODE or SYS",
                    path, number, m.columns[row.size() - 1], words[0]);
        }
        const auto left = words_of(rest, " \t");
        if (left.size() > 1 && left[1] != "N/A") m.numa.insert(left[1]);
    }
    const auto gpus = as_index(std::ranges::count_if(m.columns, is_gpu));
    if (m.rows.empty() || m.rows.size() != gpus)
        refuse("{}: {} rows for {} GPUs; expected the whole matrix of nvidia-smi topo -m", path,
               m.rows.size(), gpus);
    return m;
}

void read_links(const Matrix& m, Machine& machine) {
    const auto gpus = as_index(machine.gpus);
    int least = most_nvlinks;
    for (std::size_t r = 0; r < gpus; ++r)
        for (std::size_t c = r + 1; c < gpus; ++c) {
            const int links = std::min(nvlinks_in(m.rows[r][c]), nvlinks_in(m.rows[c][r]));
            machine.joints.push_back(links);
            machine.nvlinks = std::max(machine.nvlinks, links);
            least = std::min(least, links);
        }
    // More links than any GPU has lead to a switch.
    if (least > 0 && least < machine.nvlinks && machine.joint_links() > most_of_one)
        add_line(machine.notes,
                 "some pairs are joined by NV{} only, others by NV{}: links are down; all "
                 "are taken for NV{}",
                 least, machine.nvlinks, machine.nvlinks);
}

// The NICs nearest to a GPU carry its traffic: those behind a common switch, else (as in a virtual
// machine) those at the same host bridge, else those on the same socket, else those on the other
// socket.
void read_nics(const Matrix& m, Machine& machine) {
    for (const auto& near :
         {std::set<std::string>{"PIX", "PXB"}, {"PHB"}, {"NODE"}, {"SYS", "SOC"}}) {
        machine.nics = machine.other_nics = 0;
        for (const std::size_t c : indices_of(m.columns)) {
            if (is_gpu(m.columns[c])) continue;
            const bool near_gpu =
                std::ranges::any_of(m.rows, [&](const auto& row) { return near.contains(row[c]); });
            ++(near_gpu ? machine.nics : machine.other_nics);
        }
        if (machine.nics == 0) continue;
        if (!near.contains("PIX"))
            add_line(machine.notes,
                     "no NIC is behind a PCIe switch with a GPU: the {} joined by {} are "
                     "taken for the GPUs'",
                     machine.nics, *near.rbegin());
        return;
    }
}

}  // namespace

void read_topology_matrix(const std::string& text, const std::string& path, Machine& machine) {
    if (has(text, "topo -mp") || has(text, "topo --matrix_pci"))
        throw ConfigError(
            path + ": nvidia-smi topo -mp, which leaves NVLinks out; expected nvidia-smi topo -m");
    const Matrix m = read_matrix(text, path);
    machine.gpus = as_int(m.rows.size());
    machine.links_told = true;
    read_links(m, machine);
    read_nics(m, machine);
    machine.numa_nodes = as_int(m.numa.size());
    const bool some = contains(machine.joints, 0.0);
    add_line(machine.from,
             "{}: {} GPUs, {}; {} NICs beside GPUs, {} far from all (storage, management); "
             "{} NUMA nodes",
             path, machine.gpus,
             machine.nvlinks == 0 ? "no NVLink"
             : machine.paired()   ? fmt::format("pairs joined by NV{}", machine.nvlinks)
             : some               ? fmt::format("some joined by up to NV{}", machine.nvlinks)
                                  : fmt::format("all pairs NV{}", machine.nvlinks),
             machine.nics, machine.other_nics, machine.numa_nodes);
}

// ---- lspci: which GPU, how many, and which network cards. It tells no link and no speed.

namespace {

// "GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)": returns the name in brackets, or with `number` the
// PCI number that -nn adds.
std::string bracket(const std::string& line, bool number) {
    std::string found;
    for (std::size_t open = line.find('['); open != std::string::npos;
         open = line.find('[', open + 1)) {
        const auto close = line.find(']', open);
        if (close == std::string::npos) break;
        const auto inside = line.substr(open + 1, close - open - 1);
        const bool digits =
            inside.size() == 9 && inside[4] == ':' && std::ranges::all_of(inside, [](char c) {
                return c == ':' || std::isxdigit(static_cast<unsigned char>(c));
            });
        // "[0302]", the device class
        const bool kind = inside.size() == 4 && inside.starts_with("0");
        if (digits == number && !kind) found = inside;
    }
    return found;
}

struct PciDevices {
    int gpus = 0, nics = 0, switches = 0;
    std::string name, number, nic;  // of the first of each

    // The name of a GPU that is another than the first; "" else.
    std::string take(const std::string& line) {
        const bool maker = has_any(line, {"NVIDIA", "Advanced Micro Devices"});
        if (maker && has(line, "NVSwitch")) ++switches;
        if (has(line, "Infiniband controller") ||
            has_all(line, {"Ethernet controller", "Mellanox"})) {
            ++nics;
            if (nic.empty()) nic = bracket(line, false);
        }
        if (!maker || !has_any(line, {"3D controller", "VGA compatible controller",
                                      "Processing accelerators", "Display controller"}))
            return "";
        const auto this_name = bracket(line, false);
        if (gpus == 0) {
            name = this_name;
            number = bracket(line, true);
        }
        if (this_name != name) return this_name;
        ++gpus;
        return "";
    }
};

}  // namespace

void read_lspci(const std::string& text, const std::string& path, Machine& machine) {
    std::istringstream lines(text);
    PciDevices found;
    for (std::string line; std::getline(lines, line);)
        if (const auto other = found.take(line); !other.empty())
            add_line(machine.notes, "{}: {} and {}; the first is taken", path, other, found.name);
    if (found.gpus == 0)
        throw ConfigError(
            path + ": no GPU of NVIDIA or AMD in it; expected the output of lspci of a GPU node");
    if (machine.gpus == 0) machine.nics = found.nics;
    machine.count_devices(found.gpus, path);
    if (machine.gpu.empty()) machine.gpu = found.name;
    if (machine.pci.empty()) machine.pci = found.number;
    const auto in_brackets = [](const std::string& what) {
        return what.empty() ? "" : " (" + what + ")";
    };
    add_line(
        machine.from, "{}: {} x {}{}{}{}", path, found.gpus, found.name, in_brackets(found.number),
        found.nics > 0 ? fmt::format(", {} network ports{}", found.nics, in_brackets(found.nic))
                       : "",
        found.switches > 0 ? fmt::format(", {} NVSwitches", found.switches) : "");
}

}  // namespace stepcast
