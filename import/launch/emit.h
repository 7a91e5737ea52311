// Writes an experiment's split as flags or a file of a training framework; translate() reads them
// back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/names.h"
#include "model/experiment.h"

namespace stepcast {

NAMED_ENUM_AS(EmitFormat, "a format of --emit",
              "megatron, megatron-bridge, nemo, torchtitan, torchtitan-0.3, deepspeed", megatron,
              megatron_bridge, nemo, torchtitan, torchtitan_flags, deepspeed);

struct Emission {
    std::string text;
    // "runtime.gradients.bucket = 25 MB: the script is read as 160 MB"
    std::vector<std::string> without;
    // keys with another value in the script, which `without` names
    std::vector<std::string> lost;
    std::vector<std::string> refused;  // reasons why the framework cannot run the split
    void refuse_unless(bool runs, const std::string& why) {
        if (!runs) refused.push_back(why);
    }
};

// What the message says before the reasons; tables of levers show the reasons alone.
inline constexpr std::string_view cannot_run = "it cannot run this parallel layout: ";

// Throws ConfigError, and writes nothing, if the framework cannot run the split. What acts on the
// step or its memory is in the text or named in `without` (import/launch/lost_keys.h).
Emission emit(const Experiment& experiment, EmitFormat format);

// The same script, or refusal, without a look at what it loses.
Emission script_of(const Experiment& experiment, EmitFormat format);

// Keeps as they are the switches of the framework that this version of its script has no word for:
// a search for such a script does not walk them.
void keep_unwritten(Experiment& experiment, EmitFormat format);

}  // namespace stepcast
