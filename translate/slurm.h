// What a batch script asks Slurm for, and what Slurm tells the job of it.
#pragma once

#include <map>
#include <string>

namespace stepcast {

// By long name: "#SBATCH --nodes=4", "#SBATCH -N 4" at the beginning of a line; tasks of a node where they follow.
std::map<std::string, std::string> slurm_directives(const std::string& text);
// SLURM_NNODES and its like, where they are not there yet.
void add_slurm_variables(const std::map<std::string, std::string>& directives, std::map<std::string, std::string>& variables);

}  // namespace stepcast
