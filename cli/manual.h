// What is installed next to the program and written from the same tables as --help: man page and shell completion.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace stepcast {

// `stepcast generate WHAT`, a verb that --help does not show: bash, zsh, man; `words`, what may stand for the last of the typed
// ones; and, a word a line, experiments, workloads, clusters, frameworks, keys. Throws ConfigError on another word.
std::string generate(const std::string& what, const std::vector<std::string>& typed, const CLI::App& app);

}  // namespace stepcast
