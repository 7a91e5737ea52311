// Writes torchtitan's TOML (0.2.2, config/job_config.py) and the flags that override its functions
// of Python (0.3.0, config/configs.py and distributed/activation_checkpoint.py).
#pragma once

#include <string>

#include "import/launch/emit.h"
#include "model/experiment.h"

namespace stepcast {

std::string emit_torchtitan(const Experiment& experiment, EmitFormat format, Emission& out);

}  // namespace stepcast
