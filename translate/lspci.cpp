// What lspci says of a node's devices: which GPU, how many, and which network cards. It tells no link and no speed.
#include <algorithm>
#include <cctype>
#include <sstream>

#include <fmt/format.h>

#include "model/errors.h"
#include "translate/machine.h"

namespace stepcast {
namespace {

bool has(const std::string& line, const char* word) { return line.find(word) != std::string::npos; }

// "GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)": the name in brackets, and the number that -nn adds.
std::string bracket(const std::string& line, bool number) {
    std::string found;
    for (std::size_t open = line.find('['); open != std::string::npos; open = line.find('[', open + 1)) {
        const auto close = line.find(']', open);
        if (close == std::string::npos) break;
        const auto inside = line.substr(open + 1, close - open - 1);
        const bool digits = inside.size() == 9 && inside[4] == ':' &&
                            std::ranges::all_of(inside, [](char c) { return c == ':' || std::isxdigit(static_cast<unsigned char>(c)); });
        const bool kind = inside.size() == 4 && inside.starts_with("0");  // "[0302]", the class
        if (digits == number && !kind) found = inside;
    }
    return found;
}

}  // namespace

void read_lspci(const std::string& text, const std::string& path, Machine& machine) {
    std::istringstream lines(text);
    int gpus = 0, nics = 0, switches = 0;
    std::string name, number, nic;
    for (std::string line; std::getline(lines, line);) {
        const bool maker = has(line, "NVIDIA") || has(line, "Advanced Micro Devices");
        const bool accelerator = has(line, "3D controller") || has(line, "VGA compatible controller") ||
                                 has(line, "Processing accelerators") || has(line, "Display controller");
        if (maker && accelerator) {
            const auto this_name = bracket(line, false);
            if (gpus++ == 0) {
                name = this_name;
                number = bracket(line, true);
            } else if (this_name != name) {
                machine.notes.push_back(fmt::format("{}: {} and {}; the first is taken", path, this_name, name));
                --gpus;
            }
        }
        if (maker && has(line, "NVSwitch")) ++switches;
        if (has(line, "Infiniband controller") || (has(line, "Ethernet controller") && has(line, "Mellanox"))) {
            ++nics;
            if (nic.empty()) nic = bracket(line, false);
        }
    }
    if (gpus == 0) throw ConfigError(path + ": no GPU of NVIDIA or AMD in it; expected the output of lspci of a GPU node");
    if (machine.gpus == 0) machine.nics = nics;
    machine.count_devices(gpus, path);
    if (machine.gpu.empty()) machine.gpu = name;
    if (machine.pci.empty()) machine.pci = number;
    machine.from.push_back(fmt::format("{}: {} x {}{}{}{}", path, gpus, name, number.empty() ? "" : " (" + number + ")",
                                       nics > 0 ? fmt::format(", {} network ports{}", nics, nic.empty() ? "" : " (" + nic + ")") : "",
                                       switches > 0 ? fmt::format(", {} NVSwitches", switches) : ""));
}

}  // namespace stepcast
