// What Megatron's flags say of training: optimizer, precision, recompute, overlap.
#pragma once

#include "import/launch/megatron_source.h"

namespace stepcast {

void take_data_parallel(MegatronSource& source);
void take_precision(MegatronSource& source);
void take_recompute(MegatronSource& source);

}  // namespace stepcast
