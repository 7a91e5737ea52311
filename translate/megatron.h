// Megatron-LM's arguments and their relatives in NeMo and Megatron-Bridge: one set of names, three ways to write and to
// default them. Internal to translate/.
#pragma once

#include "translate/document.h"
#include "translate/translation.h"

namespace stepcast {

enum class MegatronDialect : std::uint8_t { lm, nemo, bridge };

// Names with underscores and without section ("tensor_model_parallel_size"). `ranks` of the launch, 0 = not told. `full`: every
// argument is stated, as in the dump of a run.
Translation translate_megatron(Document& document, MegatronDialect dialect, long ranks, bool full = false);

// Flags of a command line: "--hidden-size 4096" -> hidden_size; a bare one is true, --no-X false; the last of several counts.
// A beginning that only one flag has is that flag, as argparse reads it. "model.tensor_model_parallel_size=4" is a value too.
struct ShellArgument;
Document megatron_arguments(const std::vector<ShellArgument>& arguments, const std::string& path);

// The dump of its arguments that a run prints ("  num_layers ............ 32"), with every default and the world's size.
bool is_argument_dump(const std::string& text);
Document dumped_arguments(const std::string& text, const std::string& path);

}  // namespace stepcast
