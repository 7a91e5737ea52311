// Megatron's layout, batch and pipeline from its flags, and the reader that puts all parts
// together.
#pragma once

#include "import/launch/document.h"
#include "import/launch/megatron_source.h"
#include "import/launch/translate.h"

namespace stepcast {

// Expects names with underscores and without section ("tensor_model_parallel_size"). `ranks`: of
// the launch, 0 = unknown. `full`: every argument is stated, as in the dump of a run.
Translation translate_megatron(Document& document, MegatronDialect dialect, long ranks,
                               bool full = false);

// "(t*3|)*2" with all repetitions expanded. Throws ConfigError with the position.
std::string written_out(const NamedValue& layout);

}  // namespace stepcast
