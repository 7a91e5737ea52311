// Writes Megatron-LM's flags, and the YAML of NeMo 1 and Megatron-Bridge, which use the same names
// in sections.
#pragma once

#include <string>

#include "import/launch/emit.h"
#include "model/experiment.h"

namespace stepcast {

// Internal to translate/. Each emits for one framework and collects refusals. torchtitan has TOML
// up to 0.2, and from 0.3 on a function of Python with flags that override it.
std::string emit_megatron(const Experiment& experiment, EmitFormat format, Emission& out);

}  // namespace stepcast
