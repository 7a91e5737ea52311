// Files installed next to the program and made from the same tables as --help: man page and shell
// completion.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace stepcast {

// `stepcast generate WHAT`: bash, zsh, man, or `words`, the possible values of the last typed word.
// Throws ConfigError for another WHAT.
std::string generate(const std::string& what, const std::vector<std::string>& typed,
                     const CLI::App& app);

}  // namespace stepcast
