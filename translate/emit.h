// An experiment's split as the flags or file of a training framework: what translate() reads back.
#pragma once

#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/names.h"

namespace stepcast {

enum class EmitFormat : std::uint8_t { megatron, megatron_bridge, nemo, torchtitan, deepspeed };
constexpr auto names_of(EmitFormat) {
    using enum EmitFormat;
    return name_table<EmitFormat>("a format of --emit", {{megatron, "megatron"}, {megatron_bridge, "megatron-bridge"}, {nemo, "nemo"},
                                                         {torchtitan, "torchtitan"}, {deepspeed, "deepspeed"}});
}

struct Emission {
    std::string text;
    std::vector<std::string> without;  // "bucket = 25 MB: no counterpart"
    std::vector<std::string> refused;  // why the framework cannot run the split
    void refuse_unless(bool runs, const std::string& why) {
        if (!runs) refused.push_back(why);
    }
    void note_unless(bool same, const std::string& what) {
        if (!same) without.push_back(what);
    }
};

// Throws ConfigError where the framework cannot run the split: nothing is written then.
Emission emit(const Experiment& experiment, EmitFormat format);

// Internal to translate/: of one framework; refusals are collected, what has no counterpart is named.
std::string emit_megatron(const Experiment& experiment, EmitFormat format, Emission& out);

}  // namespace stepcast
