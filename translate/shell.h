// What a launch script would run, found by reading it: assignments, arrays, arithmetic and simple branches. Nothing is ever
// run. Internal to translate/.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace stepcast {

struct ShellArgument {
    std::string text;
    std::string at;  // "train.sh:14": where its text was written
};
struct ShellLaunch {
    std::vector<ShellArgument> arguments;  // of the command that trains: program, its options, the script and its flags
    std::vector<ShellArgument> documents;  // here-documents that are JSON, with the variables of their place put in
    std::vector<std::string> unknown;      // variables that the script does not set: taken as empty
    std::vector<std::string> notes;        // branches and loops that were passed over
    std::map<std::string, std::string> directives;  // "#SBATCH --nodes=4": nodes -> 4
};

// `given` holds variables of the environment. Throws ConfigError when nothing is launched.
ShellLaunch read_launch(const std::string& text, const std::string& path,
                        const std::map<std::string, std::string>& given);

}  // namespace stepcast
