// Rows that train something else than all weights on full sequences. Internal to cases/.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// Adapters beside frozen weights (LoRA, PEFT) are set in the workload; fine-tuning of all weights is the work of
// pretraining on sequences that are packed full. Both are listed in `assumptions`. Throws ConfigError for work that is no
// training step (inference, preference optimisation).
void set_other_work(const CaseRow& row, Workload& workload, std::vector<std::string>& assumptions);

}  // namespace stepcast
