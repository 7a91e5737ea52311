// The command that a launch script would run.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace stepcast {

// The launch that a script would run, found by reading assignments, arrays, arithmetic and simple
// branches. Nothing is executed.
struct ShellArgument {
    std::string text;
    std::string at;  // "train.sh:14": where its text stands in the script
};
struct ShellLaunch {
    // of the training command: program, its options, the script and its flags
    std::vector<ShellArgument> arguments;
    std::vector<ShellArgument> documents;  // here-documents with JSON, with variables substituted
    std::vector<std::string> unknown;      // variables that the script does not set, taken as empty
    std::vector<std::string> notes;        // branches and loops that were skipped
    std::vector<std::string> missing_files;  // of these, of scripts that are not there
    // CONFIG_FILE, NGPU and other variables that torchtitan's launcher reads
    std::map<std::string, std::string> environment;
    std::map<std::string, std::string> directives;  // "#SBATCH --nodes=4": nodes -> 4
};

}  // namespace stepcast
