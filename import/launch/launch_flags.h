// What each flag of Megatron-LM and its relatives does to a step: model/presets/launch_flags.toml.
// Internal to translate/.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "import/launch/document.h"

namespace stepcast {

struct Translation;

struct UnmodelledFlag {
    std::string instead;  // what the forecast has instead
    // the value at which it changes nothing, beside those that switch it off
    std::string usual;
    bool everywhere = false;    // a name of other tools' files too, with any sections in front
    bool unless_taken = false;  // of tools whose reader has no rule for it
};

struct LaunchFlags {
    std::vector<std::string> speaks;  // words of names that concern a step
    std::vector<std::string> taken;   // read by a rule
    std::set<std::string> quiet;      // known, and no problem by themselves
    std::set<std::string> of_deepspeed;
    std::map<std::string, UnmodelledFlag> problems;

    [[nodiscard]] bool knows(const std::string& name) const {
        return quiet.contains(name) || problems.contains(name);
    }
    // A name of sizes, parallelism, precision, recompute, experts, attention or overlap.
    [[nodiscard]] bool speaks_of_step(const std::string& name) const;
    // .. that no list has.
    [[nodiscard]] bool concerns_step(const std::string& name) const {
        return !knows(name) && speaks_of_step(name);
    }
};

// Read once. Throws ConfigError with the position of what it does not expect.
const LaunchFlags& launch_flags();

// Off, or equal to the behaviour without the flag.
bool changes_nothing(const std::string& value, const std::string& usual = "");

// Reports flags that change a step and that no rule has read, and lists the rest. `dump`: every
// argument is stated, so that an unknown one may be a default; these are named in one line.
void judge_flags(Document& document, Translation& translation, bool dump);

}  // namespace stepcast
