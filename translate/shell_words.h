// Shell text as commands of words, before any expansion. Nothing is ever run. Internal to translate/.
#pragma once

#include <string>
#include <vector>

namespace stepcast {

struct ShellWord {
    std::string raw;  // quotes and variables as written; an array's value with its parentheses
    int line = 0;
};
struct ShellCommand {
    std::vector<ShellWord> words;
    std::vector<ShellWord> documents;  // bodies of its here-documents
    std::string then;  // what stands behind it: "\n", ";", "&&", "||", "|", "&", ";;", ")"
};

// Throws ConfigError with the line where a quote or bracket is not closed.
std::vector<ShellCommand> shell_commands(const std::string& text, const std::string& path);

}  // namespace stepcast
