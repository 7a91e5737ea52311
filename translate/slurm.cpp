#include "translate/shell_parts.h"

#include <sstream>

namespace stepcast {

std::map<std::string, std::string> slurm_directives(const std::string& text) {
    static const std::map<std::string, std::string> longer{{"N", "nodes"}, {"n", "ntasks"}, {"G", "gpus"}};
    std::map<std::string, std::string> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("#SBATCH")) continue;
        const auto name = line.find_first_not_of("- \t", 7), end = line.find_first_of("= \t", name);
        if (name == std::string::npos || end == std::string::npos) continue;
        const auto from = line.find_first_not_of("= \t", end);
        if (from == std::string::npos) continue;
        const auto key = line.substr(name, end - name);
        const auto known = longer.find(key);
        found[known != longer.end() ? known->second : key] = line.substr(from, line.find_first_of(" \t", from) - from);
    }
    const long nodes = std::atol(found["nodes"].c_str()), tasks = std::atol(found["ntasks"].c_str());
    if (nodes > 0 && tasks > 0 && tasks % nodes == 0) found.try_emplace("ntasks-per-node", std::to_string(tasks / nodes));
    std::erase_if(found, [](const auto& directive) { return directive.second.empty(); });
    return found;
}

void add_slurm_variables(const std::map<std::string, std::string>& directives, std::map<std::string, std::string>& variables) {
    for (const auto& [directive, variable] : {std::pair{"nodes", "SLURM_NNODES"}, {"nodes", "SLURM_JOB_NUM_NODES"},
                                              {"ntasks", "SLURM_NTASKS"}, {"ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
                                              {"gpus-per-node", "SLURM_GPUS_PER_NODE"}, {"gpus-per-node", "SLURM_GPUS_ON_NODE"}})
        if (const auto at = directives.find(directive); at != directives.end()) variables.try_emplace(variable, at->second);
    const auto gres = directives.find("gres");  // gpu:8, gpu:h100:8
    if (gres != directives.end() && gres->second.starts_with("gpu"))
        variables.try_emplace("SLURM_GPUS_ON_NODE", gres->second.substr(gres->second.rfind(':') + 1));
}

}  // namespace stepcast
