// Megatron-LM's arguments and their relatives in NeMo and Megatron-Bridge: one set of names, three ways to write and to
// default them. Internal to translate/.
#pragma once

#include "translate/document.h"
#include "translate/translation.h"

namespace stepcast {

enum class MegatronDialect : std::uint8_t { lm, nemo, bridge };

// Names with underscores and without section ("tensor_model_parallel_size"). `ranks` of the launch, 0 = not told.
Translation translate_megatron(Document& document, MegatronDialect dialect, long ranks);

// Flags of a command line: "--hidden-size 4096" -> hidden_size; a bare one is true; the last of several counts.
struct ShellArgument;
Document megatron_arguments(const std::vector<ShellArgument>& arguments, const std::string& path);

}  // namespace stepcast
