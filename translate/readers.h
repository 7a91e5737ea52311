// One reader a framework: its configuration as keys. Internal to translate/.
#pragma once

#include "translate/document.h"
#include "translate/translation.h"

namespace stepcast {

// Megatron-LM's arguments and their relatives in NeMo and Megatron-Bridge: one set of names, three ways to write and to
// default them.
enum class MegatronDialect : std::uint8_t { lm, nemo, bridge };

// Names with underscores and without section ("tensor_model_parallel_size"). `ranks` of the launch, 0 = not told. `full`: every
// argument is stated, as in the dump of a run.
Translation translate_megatron(Document& document, MegatronDialect dialect, long ranks, bool full = false);

// NeMo's YAML, and Megatron-Bridge's: of `variant` ("h100,64,bf16") where the file is a table of several.
Translation translate_nemo(Document document);
Translation translate_bridge(Document document, const std::string& variant);
// Sections of Megatron-Bridge, which its scripts' overrides have too, are left out of names that one section alone has.
void drop_bridge_sections(Document& document);

// Flags of a command line: "--hidden-size 4096" -> hidden_size; a bare one is true, --no-X false; the last of several counts.
// A beginning that only one flag has is that flag, as argparse reads it. "model.tensor_model_parallel_size=4" is a value too.
struct ShellArgument;
Document megatron_arguments(const std::vector<ShellArgument>& arguments, const std::string& path);

// The dump of its arguments that a run prints ("  num_layers ............ 32"), with every default and the world's size.
bool is_argument_dump(const std::string& text);
Document dumped_arguments(const std::string& text, const std::string& path);

// What --yaml-cfg of Megatron-LM reads: the flags' destinations in tables.
bool is_yaml_configuration(const std::string& text);
std::string read_described(const std::string& path);

// DeepSpeed's JSON configuration. `replicas` here and below: of the machine, where the file leaves them open; 0 = not told.
Translation translate_deepspeed(Document& document, long replicas);

// torchtitan's TOML (v0.2.2). `model` names the sizes where model.name and model.flavor do not.
Translation translate_torchtitan(Document& document, const std::string& model, long replicas);

// What a file states, changes a step and has no key, told among the problems.
void name_unmodelled(Document& document, Translation& translation);
// The same, and what no rule looked at: data, logs, checkpoints, learning have no effect on a step.
void leave_rest(Document& document, Translation& translation);
// Adam, SGD or Lamb; another is told and taken as one of them.
void set_optimizer(Translation& translation, const NamedValue& value);

// OmegaConf's ${..} in NeMo's YAML: relative and absolute names, multiply and divide.

// Values that name others take theirs; what cannot be told keeps its text.
void interpolate(Document& document);

}  // namespace stepcast
