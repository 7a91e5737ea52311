// A script's text as commands and words, tests of [ .. ], and what #SBATCH lines ask for.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "import/launch/shell_parts.h"

namespace stepcast {

// Throws ConfigError with the line if a quote or bracket is not closed.
std::vector<ShellCommand> shell_commands(const std::string& text, const std::string& path);

// Where output goes is no argument: > file, 2>&1, &>> file.
std::vector<ShellWord> without_redirections(const std::vector<ShellWord>& words);

// Evaluates the text inside `[ .. ]` or `[[ .. ]]` after substitution: one string, -z and -n,
// comparisons of texts (patterns on the right) and of numbers, joined by && and ||, negated by !.
// Empty if it depends on what a reader cannot know, such as a file.
std::optional<bool> shell_test(std::span<const std::string> words);

// Computes a || b if `either`, else a && b. Empty if the known operands do not determine the
// result.
std::optional<bool> decided(std::optional<bool> a, bool either, std::optional<bool> b);

// What a batch script requests from Slurm, by long name: "#SBATCH --nodes=4" or "#SBATCH -N 4" at
// the beginning of a line; also the tasks per node if they follow from the others.
std::map<std::string, std::string> slurm_directives(const std::string& text);

// Adds the variables that Slurm sets for the job (SLURM_NNODES and others), unless they are set
// already.
void add_slurm_variables(const std::map<std::string, std::string>& directives,
                         std::map<std::string, std::string>& variables);

}  // namespace stepcast
