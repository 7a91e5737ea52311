// Kernels that replace what a model of transformers composes: Liger's, and cut cross entropy.
#pragma once

#include "import/launch/document.h"
#include "import/launch/tool_files.h"
#include "import/launch/translation.h"

namespace stepcast {

// Of a program whose framework is settled. What it does not read, as with tensor parallelism or a
// loss of TRL's own, stays a problem.
void take_liger(const Tool& tool, Document& document, Translation& translation);

}  // namespace stepcast
