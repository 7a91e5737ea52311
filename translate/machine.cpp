#include "translate/machine.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/experiment.h"
#include "model/presets.h"

namespace stepcast {
namespace {

// One NVLink, bytes per second and direction, by datasheet: 25 GB/s to NVLink 4, 50 with NVLink 5.
double nvlink_gigabytes(const std::string& gpu) { return gpu.find("B200") != std::string::npos || gpu.find("B300") != std::string::npos ? 50 : 25; }

// "NVIDIA H100 80GB HBM3" -> the preset of H100: the whole name, then its words.
std::string preset_of(const std::string& name) {
    std::vector<std::string> tries{name};
    std::string word;
    for (const char c : name + " ")
        if (c != ' ' && c != '-') {
            word += c;
        } else {
            const bool letter_and_digit = std::ranges::any_of(word, [](char x) { return std::isdigit(static_cast<unsigned char>(x)); }) &&
                                          std::ranges::any_of(word, [](char x) { return std::isalpha(static_cast<unsigned char>(x)); });
            if (letter_and_digit) tries.push_back(word);
            word.clear();
        }
    for (const auto& each : tries) {
        try {
            return preset_path(PresetKind::cluster, each);
        } catch (const ConfigError&) {
            continue;
        }
    }
    return "";
}

// By its links or its capability, where only one device has them.
std::string guessed(const Machine& m) {
    if (m.sm == 70) return "V100";
    if (m.sm == 80 || m.nvlinks == 12) return "A100";
    return "";
}

void lay_links(const Machine& m, Cluster& c, const Cluster& known, std::vector<std::string>& report) {
    c.fabric = !m.links_told ? known.fabric : m.paired ? Fabric::nvlink_pairs : m.nvlinks > 0 ? Fabric::nvswitch : Fabric::pcie;
    if (!m.links_told) {
        report.push_back("assumed: the NVLink of " + known.name + "; the files do not tell");
        c.network.nics = m.nics;
        return;
    }
    const BytesPerSecond nvlink(m.nvlinks * nvlink_gigabytes(known.gpu.name) * 1e9);
    const BytesPerSecond pcie = m.pcie > BytesPerSecond(0) ? m.pcie
                                : known.fabric == Fabric::pcie ? known.intra.bandwidth
                                                               : BytesPerSecond(24e9);
    if (m.pcie == BytesPerSecond(0) && c.fabric != Fabric::nvswitch)
        report.push_back("assumed: PCIe " + to_string(pcie) + ", which the files do not tell; link.intra.bandwidth");
    c.intra.bandwidth = c.fabric == Fabric::nvswitch ? nvlink : pcie;
    c.intra.pair_bandwidth = m.paired ? nvlink : BytesPerSecond(0);
    c.intra.socket_bandwidth = c.fabric == Fabric::nvswitch ? BytesPerSecond(0) : m.socket;
    if (m.meshed)
        report.push_back("warning: NVLink joins only some pairs (a mesh); taken as a switch, which is too fast for the others");
    c.network.nics = m.nics;
    c.network.rails = m.nics >= c.gpus_per_node;
    c.inter.bandwidth = m.nic > BytesPerSecond(0) ? m.nic : known.inter.bandwidth;
    if (m.nic == BytesPerSecond(0) && m.nics > 0)
        report.push_back("assumed: a NIC of " + to_string(c.inter.bandwidth) + " as in " + known.name +
                         "; the files do not tell; link.inter.bandwidth");
}

bool alike(double a, double b) { return std::abs(a - b) <= 0.1 * b; }

}  // namespace

MachineFile cluster_of_machine(Machine m, const std::string& name, const std::string& gpu) {
    MachineFile file;
    file.report = m.from;
    const std::string told = !gpu.empty() ? gpu : !m.gpu.empty() ? m.gpu : guessed(m);
    if (told.empty())
        throw ConfigError(fmt::format("{}: which GPU is not told ({} NVLinks, sm {}); expected --gpu NAME, for example "
                                      "--gpu H100, or the output of nvidia-smi -q -x beside it",
                                      m.from.empty() ? name : m.from.front(), m.nvlinks, m.sm));
    const auto path = preset_of(told);
    if (path.empty())
        throw ConfigError("--gpu " + told + ": no preset has its datasheet; expected a device of `stepcast list presets`, or "
                          "a cluster file with gpu.peak, gpu.memory and gpu.memory_bandwidth written by hand");
    const Cluster known = read_cluster(path);
    Cluster c = known;
    c.name = name;
    c.nodes = 1;
    c.gpus_per_node = m.gpus;
    if (m.memory > Bytes(0)) c.gpu.memory = m.memory;
    lay_links(m, c, known, file.report);
    const bool same = c.fabric == known.fabric && c.gpus_per_node == known.gpus_per_node &&
                      alike(c.intra.bandwidth.si(), known.intra.bandwidth.si());
    file.report.push_back(fmt::format("device: {} by the datasheet in {}{}", known.gpu.name, known.name,
                                      gpu.empty() && m.gpu.empty() ? " (guessed from its links)" : ""));
    c.source = fmt::format("described by its own files; datasheet of {}", known.name);
    std::string head;
    for (const auto& line : m.from) head += "# " + line + "\n";
    for (const auto& line : m.notes) {
        head += "# " + line + "\n";
        file.report.push_back(line);
    }
    if (same) {
        file.report.push_back("constants: those of " + known.name + ", the same device, fabric and links");
        file.text = head + write_cluster(c);
        return file;
    }
    file.report.push_back("constants: priors, the median of the fitted machines; nothing was fitted to this one");
    const auto line = [](const char* key, const std::string& value) { return fmt::format("{} = {}\n", key, value); };
    const auto quoted = [](const std::string& text) { return "\"" + text + "\""; };
    file.text = head + line("name", quoted(c.name)) + line("source", quoted(c.source)) +
                line("nodes", "1") + line("gpus_per_node", std::to_string(c.gpus_per_node)) +
                line("fabric", quoted(std::string(to_string(c.fabric)))) + line("network.nics", std::to_string(c.network.nics)) +
                line("network.rails", c.network.rails ? "true" : "false") +
                line("link.intra.bandwidth", quoted(exact_text(c.intra.bandwidth))) +
                line("link.inter.bandwidth", quoted(exact_text(c.inter.bandwidth)));
    if (c.intra.pair_bandwidth > BytesPerSecond(0))
        file.text += line("link.intra.pair_bandwidth", quoted(exact_text(c.intra.pair_bandwidth)));
    if (c.intra.socket_bandwidth > BytesPerSecond(0))
        file.text += line("link.intra.socket_bandwidth", quoted(exact_text(c.intra.socket_bandwidth)));
    file.text += "\n[gpu]\n" + line("name", quoted(c.gpu.name)) + line("sms", std::to_string(c.gpu.sms)) +
                 line("memory", quoted(exact_text(c.gpu.memory))) +
                 line("memory_bandwidth", quoted(exact_text(c.gpu.memory_bandwidth)));
    for (const auto& [key, rate] : {std::pair{"peak.fp32", c.gpu.fp32}, {"peak.tf32", c.gpu.tf32}, {"peak.fp16", c.gpu.fp16},
                                    {"peak.bf16", c.gpu.bf16}, {"peak.fp8", c.gpu.fp8}, {"peak.fp4", c.gpu.fp4}})
        if (rate > FlopsPerSecond(0)) file.text += line(key, quoted(exact_text(rate)));
    return file;
}

}  // namespace stepcast
