// What Megatron's flags say of the model: sizes, attention, experts.
#pragma once

#include "import/launch/megatron_source.h"

namespace stepcast {

void take_model(MegatronSource& source);
void take_experts(MegatronSource& source);

}  // namespace stepcast
