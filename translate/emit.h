// Writes an experiment's split as flags or a file of a training framework; translate() reads them back.
#pragma once

#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/names.h"

namespace stepcast {

NAMED_ENUM_AS(EmitFormat, "a format of --emit", "megatron, megatron-bridge, nemo, torchtitan, deepspeed",
              megatron, megatron_bridge, nemo, torchtitan, deepspeed);

struct Emission {
    std::string text;
    std::vector<std::string> without;  // "bucket = 25 MB: no counterpart"
    std::vector<std::string> refused;  // reasons why the framework cannot run the split
    void refuse_unless(bool runs, const std::string& why) {
        if (!runs) refused.push_back(why);
    }
    void note_unless(bool same, const std::string& what) {
        if (!same) without.push_back(what);
    }
};

// Throws ConfigError, and writes nothing, if the framework cannot run the split.
Emission emit(const Experiment& experiment, EmitFormat format);

// Internal to translate/. Emits for one framework; collects refusals and names what has no counterpart.
std::string emit_megatron(const Experiment& experiment, EmitFormat format, Emission& out);

}  // namespace stepcast
