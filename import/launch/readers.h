// One reader per framework, which turns its configuration into keys. Internal to translate/.
#pragma once

#include <map>
#include <utility>

#include "import/launch/document.h"
#include "import/launch/translate.h"

namespace stepcast {

// The launch that a script would run, found by reading assignments, arrays, arithmetic and simple
// branches. Nothing is executed.
struct ShellArgument {
    std::string text;
    std::string at;  // "train.sh:14": where its text stands in the script
};
struct ShellLaunch {
    // of the training command: program, its options, the script and its flags
    std::vector<ShellArgument> arguments;
    std::vector<ShellArgument> documents;  // here-documents with JSON, with variables substituted
    std::vector<std::string> unknown;      // variables that the script does not set, taken as empty
    std::vector<std::string> notes;        // branches and loops that were skipped
    // CONFIG_FILE, NGPU and other variables that torchtitan's launcher reads
    std::map<std::string, std::string> environment;
    std::map<std::string, std::string> directives;  // "#SBATCH --nodes=4": nodes -> 4
};

// `given` holds environment variables. Throws ConfigError if nothing is launched.
ShellLaunch read_launch(const std::string& text, const std::string& path,
                        const std::map<std::string, std::string>& given);

// As translate(), of text that no file holds; `path` is for messages.
Translation translate_text(const std::string& text, const std::string& path, ForeignFormat format,
                           const TranslateOptions& options);

// Megatron-LM's arguments, which NeMo and Megatron-Bridge share: the names are the same, but the
// notations and defaults differ.
enum class MegatronDialect : std::uint8_t { lm, nemo, bridge };

// Keys with the same number in all dialects: our name, Megatron-LM's, and that of NeMo and
// Megatron-Bridge if different.
struct MegatronNumber {
    std::string_view ours, of_lm, of_others = "";
};
inline constexpr MegatronNumber megatron_numbers[] = {
    {"workload.layers", "num_layers"},
    {"workload.hidden", "hidden_size"},
    {"workload.heads", "num_attention_heads"},
    {"workload.head_dim", "kv_channels"},
    {"workload.max_positions", "max_position_embeddings"},
    {"workload.vocab", "vocab_size"},
    {"workload.mla.q_rank", "q_lora_rank"},
    {"workload.moe.experts", "num_experts", "num_moe_experts"},
    {"workload.moe.top_k", "moe_router_topk"},
    {"workload.moe.ffn", "moe_ffn_hidden_size"},
    {"workload.moe.groups", "moe_router_num_groups"},
    {"workload.moe.top_groups", "moe_router_group_topk"},
    {"workload.moe.shared_ffn", "moe_shared_expert_intermediate_size"},
    {"parallelism.tp", "tensor_model_parallel_size"},
    {"parallelism.pp", "pipeline_model_parallel_size"},
    {"parallelism.cp", "context_parallel_size"},
    {"parallelism.ep", "expert_model_parallel_size"},
    {"parallelism.micro_batch", "micro_batch_size"},
    {"parallelism.global_batch", "global_batch_size"}};

// Expects names with underscores and without section ("tensor_model_parallel_size"). `ranks`: of
// the launch, 0 = unknown. `full`: every argument is stated, as in the dump of a run.
Translation translate_megatron(Document& document, MegatronDialect dialect, long ranks,
                               bool full = false);

// State of the translation of Megatron's arguments, and its parts. Defaults and names come from
// megatron/training/arguments.py and megatron/core/transformer/transformer_config.py of Megatron-LM
// d98e8a64, the launcher's YAML of NeMo 1 (26e42fa9), and the configuration classes of
// Megatron-Bridge (067f987d).
struct MegatronSource {
    Document& d;
    MegatronDialect dialect;
    long ranks = 0;  // of the launch; 0 = unknown
    Translation t = {};
    bool sized = true;       // the file describes the model, so defaults of its sizes apply
    bool full = false;       // the dump of a run: every argument is stated, defaults included
    bool deepspeed = false;  // Megatron-DeepSpeed's script

    [[nodiscard]] bool lm() const { return dialect == MegatronDialect::lm; }
    // Takes the file's value. The default applies only if the file describes the model.
    void take(const std::string& ours, const NamedValue* value, const KeyText& read,
              const std::string& otherwise = "") {
        t.take(ours, value, read, sized ? otherwise : "");
    }
};

// "(t*3|)*2" with all repetitions expanded. Throws ConfigError with the position.
std::string written_out(const NamedValue& layout);

void take_model(MegatronSource& source);
void take_experts(MegatronSource& source);
void take_data_parallel(MegatronSource& source);
void take_precision(MegatronSource& source);
void take_recompute(MegatronSource& source);

// Megatron-DeepSpeed's own flags.
bool is_of_deepspeed(Document& document);
void take_deepspeed_experts(MegatronSource& source);  // before the numbers that all dialects share
void take_deepspeed_split(MegatronSource& source);
// True if stages are cut as if embedding and logits were a layer each; names other ways to cut.
bool counts_embedding_as_layer(MegatronSource& source);

// YAML of NeMo, and of Megatron-Bridge; `variant` ("h100,64,bf16") selects a row if the file is a
// table.
Translation translate_nemo(Document document);
Translation translate_bridge(Document document, const std::string& variant);
// Removes Megatron-Bridge's sections, also used in overrides of its scripts, from names that only
// one section has.
void drop_bridge_sections(Document& document);

// Flags of a command line: "--hidden-size 4096" -> hidden_size. A bare flag is true, --no-X is
// false, and the last of several counts. A unique prefix of a flag is that flag, as in argparse.
// "model.tensor_model_parallel_size=4" is read as well.
Document megatron_arguments(const std::vector<ShellArgument>& arguments, const std::string& path);

// The dump that a run prints of its arguments ("  num_layers ............ 32"), with all defaults
// and the world size.
bool is_argument_dump(const std::string& text);
// The dump in a log of any length, behind as many line ends as stand before it; "" = none.
std::string dump_in_log(const std::string& path);
Document dumped_arguments(const std::string& text, const std::string& path);

// A launch script, by the program that it starts.
Translation translate_script(const std::string& text, const std::string& path,
                             const TranslateOptions& options);
// Megatron-LM's recipes in YAML: flags below MODEL_ARGS or ARGS.
bool is_argument_block(const std::string& text);
Translation translate_argument_block(Document document);

// Launch lines of other tools. NeMo 1's programs have a configuration of their own below Hydra's
// overrides (nemo_programs.toml); `nemo llm pretrain --factory RECIPE` of NeMo 2 a recipe
// (nemo_recipes.toml). torchtitan's launcher names a TOML file, and flags override it.
bool is_nemo_launch(const std::string& program, Document& arguments);
Translation translate_nemo_launch(const std::string& program, Document arguments,
                                  const std::string& path);
Translation translate_nemo_recipe(Document arguments);
bool is_titan_launch(const ShellLaunch& launch);
Translation translate_titan_launch(const ShellLaunch& launch, long per_node, long ranks,
                                   const std::string& path, const TranslateOptions& options);
// Programs on Hugging Face's Trainer (TRL and LLaMA-Factory among them), and what accelerate
// starts: their flags, and the files that these name. `tool` read alone is one of these.
struct Tool;
// The tool that a launch line starts by its own program or module ("swift sft", "-m
// verl.trainer.main_ppo"); nullptr if none is known.
const Tool* tool_started(const std::vector<ShellArgument>& words);
bool is_of_trainer(const Tool& tool);
Translation translate_trainer(const Tool& tool, Document document, const TranslateOptions& options);
bool is_trainer_launch(const ShellLaunch& launch, const std::string& path);
Translation translate_trainer_launch(const ShellLaunch& launch, const std::string& path,
                                     const TranslateOptions& options);
bool is_configuration(const std::string& name);  // YAML or JSON
// beside the script or above it; "" = none
std::string found_file(const std::string& name, const std::string& script);

// DeepSpeed's JSON configuration. `replicas` (also below): those of the machine if the file leaves
// them open; 0 = unknown.
Translation translate_deepspeed(Document document, long replicas);
// Batch, ZeRO, precision and optimizer of such a file, which GPT-NeoX's has too.
void take_deepspeed_training(Document& document, Translation& translation, long replicas);

// GPT-NeoX's YAML, and Primus' (Megatron-LM's keys below modules.NAME.overrides).
Translation translate_gpt_neox(Document document, long replicas);
bool is_gpt_neox(const Document& document);
bool is_primus(const Document& document);
Translation translate_primus(Document document);

// torchtitan's names of pipeline schedules; of the two for 1F1B the second is for several chunks
// per stage.
inline constexpr std::pair<std::string_view, Schedule> titan_schedules[] = {
    {"GPipe", Schedule::gpipe},
    {"1F1B", Schedule::one_f_one_b},
    {"Interleaved1F1B", Schedule::one_f_one_b},
    {"ZBVZeroBubble", Schedule::zb_v},
    {"DualPipeV", Schedule::dualpipe}};

// torchtitan's models with our presets of the same sizes: model.name and model.flavor of its TOML,
// module and config function from 0.3 on ("": none).
struct TitanModel {
    std::string_view name, flavor, preset, config;
};
// The model of these sizes, or null.
const TitanModel* titan_model_of(const Workload& workload);

// torchtitan's TOML (v0.2.2), or the flags of 0.3.0 by the same names. `model` gives the sizes if
// model.name and model.flavor do not.
Translation translate_torchtitan(Document document, const std::string& model, long replicas);

// Adds to the problems the rule between keys that `simulate` would refuse the experiment by.
void name_what_is_refused(Translation& translation);

// Reports as problems what a file states that changes a step but has no key.
void name_unmodelled(Document& document, Translation& translation);
// The same for what no rule has read; the rest is listed. Data, logs, checkpoints and learning
// settings do not affect a step.
void leave_rest(Document& document, Translation& translation);
// Adam, SGD or Lamb. Another optimizer is reported and replaced by one of these.
void set_optimizer(Translation& translation, const NamedValue& value);

}  // namespace stepcast
