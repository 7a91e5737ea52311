// What all readers of other tools share: a value taken, defaulted, ignored or named as a problem.
#pragma once

#include <string>
#include <vector>

#include "import/launch/document.h"
#include "import/launch/translate.h"

namespace stepcast {

// Reports as problems what a file states that changes a step but has no key.
void name_unmodelled(Document& document, Translation& translation);

// The same for what no rule has read; the rest is listed. Data, logs, checkpoints and learning
// settings do not affect a step.
void leave_rest(Document& document, Translation& translation);

// Adam, SGD or Lamb. Another optimizer is reported and replaced by one of these.
// FSDP that keeps its shards, their gradients and the optimizer on the host (PyTorch 2.6,
// fully_shard/_fsdp_api.py: CPUOffloadPolicy); a problem where that is not modelled.
void keep_on_host(const NamedValue& value, Translation& translation);

void set_optimizer(Translation& translation, const NamedValue& value);

// The experiment file, with the origin of every value. Keys check their values; throws ConfigError
// with their position.
std::string experiment_text(const Translation& translation);

// Lines for people: what was taken, defaulted, ignored, left open and wrong.
std::vector<std::string> report(const Translation& translation);

}  // namespace stepcast
