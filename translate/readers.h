// One reader a framework: its configuration as keys. Internal to translate/.
#pragma once

#include <map>
#include <utility>

#include "translate/document.h"
#include "translate/translate.h"

namespace stepcast {

// What a launch script would run, found by reading it: assignments, arrays, arithmetic and simple branches. Nothing is ever run.
struct ShellArgument {
    std::string text;
    std::string at;  // "train.sh:14": where its text was written
};
struct ShellLaunch {
    std::vector<ShellArgument> arguments;  // of the command that trains: program, its options, the script and its flags
    std::vector<ShellArgument> documents;  // here-documents that are JSON, with the variables of their place put in
    std::vector<std::string> unknown;      // variables that the script does not set: taken as empty
    std::vector<std::string> notes;        // branches and loops that were passed over
    std::map<std::string, std::string> directives;  // "#SBATCH --nodes=4": nodes -> 4
};

// `given` holds variables of the environment. Throws ConfigError when nothing is launched.
ShellLaunch read_launch(const std::string& text, const std::string& path,
                        const std::map<std::string, std::string>& given);

// Megatron-LM's arguments and their relatives in NeMo and Megatron-Bridge: one set of names, three ways to write and to
// default them.
enum class MegatronDialect : std::uint8_t { lm, nemo, bridge };

// Keys whose number is the same in both, by their names in Megatron-LM, and in NeMo and Megatron-Bridge where these have another.
struct MegatronNumber {
    std::string_view ours, of_lm, of_others = "";
};
inline constexpr MegatronNumber megatron_numbers[] = {
    {"workload.layers", "num_layers"}, {"workload.hidden", "hidden_size"}, {"workload.heads", "num_attention_heads"},
    {"workload.head_dim", "kv_channels"}, {"workload.max_positions", "max_position_embeddings"}, {"workload.vocab", "vocab_size"},
    {"workload.mla.q_rank", "q_lora_rank"}, {"workload.moe.experts", "num_experts", "num_moe_experts"},
    {"workload.moe.top_k", "moe_router_topk"}, {"workload.moe.ffn", "moe_ffn_hidden_size"}, {"workload.moe.groups", "moe_router_num_groups"},
    {"workload.moe.top_groups", "moe_router_group_topk"}, {"workload.moe.shared_ffn", "moe_shared_expert_intermediate_size"},
    {"parallelism.tp", "tensor_model_parallel_size"}, {"parallelism.pp", "pipeline_model_parallel_size"},
    {"parallelism.cp", "context_parallel_size"}, {"parallelism.ep", "expert_model_parallel_size"},
    {"parallelism.micro_batch", "micro_batch_size"}, {"parallelism.global_batch", "global_batch_size"}};

// Names with underscores and without section ("tensor_model_parallel_size"). `ranks` of the launch, 0 = not told. `full`: every
// argument is stated, as in the dump of a run.
Translation translate_megatron(Document& document, MegatronDialect dialect, long ranks, bool full = false);

// What is read and what was made of it so far, while Megatron's arguments are translated, and the parts of that work. Defaults
// and names: megatron/training/arguments.py, megatron/core/transformer/transformer_config.py of Megatron-LM d98e8a64, the
// launcher's YAML of NeMo 1 (26e42fa9), configuration classes of Megatron-Bridge (067f987d).
struct MegatronSource {
    Document& d;
    MegatronDialect dialect;
    long ranks = 0;     // of the launch; 0 = not told
    Translation t = {};
    bool sized = true;  // the file describes the model, so its defaults count
    bool full = false;  // every argument is stated, those left at their defaults too: the dump of a run

    [[nodiscard]] bool lm() const { return dialect == MegatronDialect::lm; }
    // As the file says; defaults only where it describes the model.
    void take(const std::string& ours, const NamedValue* value, const KeyText& read, const std::string& otherwise = "") {
        t.take(ours, value, read, sized ? otherwise : "");
    }
};

// "(t*3|)*2" with every piece as often as it says. Throws ConfigError with the place.
std::string written_out(const NamedValue& layout);

void take_model(MegatronSource& source);
void take_experts(MegatronSource& source);
void take_data_parallel(MegatronSource& source);
void take_precision(MegatronSource& source);
void take_recompute(MegatronSource& source);

// NeMo's YAML, and Megatron-Bridge's: of `variant` ("h100,64,bf16") where the file is a table of several.
Translation translate_nemo(Document document);
Translation translate_bridge(Document document, const std::string& variant);
// Sections of Megatron-Bridge, which its scripts' overrides have too, are left out of names that one section alone has.
void drop_bridge_sections(Document& document);

// Flags of a command line: "--hidden-size 4096" -> hidden_size; a bare one is true, --no-X false; the last of several counts.
// A beginning that only one flag has is that flag, as argparse reads it. "model.tensor_model_parallel_size=4" is a value too.
Document megatron_arguments(const std::vector<ShellArgument>& arguments, const std::string& path);

// The dump of its arguments that a run prints ("  num_layers ............ 32"), with every default and the world's size.
bool is_argument_dump(const std::string& text);
Document dumped_arguments(const std::string& text, const std::string& path);

// DeepSpeed's JSON configuration. `replicas` here and below: of the machine, where the file leaves them open; 0 = not told.
Translation translate_deepspeed(Document document, long replicas);

// Pipeline schedules by torchtitan's names: of 1F1B the second is the one with several chunks a stage.
inline constexpr std::pair<std::string_view, Schedule> titan_schedules[] = {{"GPipe", Schedule::gpipe}, {"1F1B", Schedule::one_f_one_b},
    {"Interleaved1F1B", Schedule::one_f_one_b}, {"ZBVZeroBubble", Schedule::zb_v}, {"DualPipeV", Schedule::dualpipe}};

// torchtitan's TOML (v0.2.2). `model` names the sizes where model.name and model.flavor do not.
Translation translate_torchtitan(Document document, const std::string& model, long replicas);

// What a file states, changes a step and has no key, told among the problems.
void name_unmodelled(Document& document, Translation& translation);
// The same, and what no rule looked at: data, logs, checkpoints, learning have no effect on a step.
void leave_rest(Document& document, Translation& translation);
// Adam, SGD or Lamb; another is told and taken as one of them.
void set_optimizer(Translation& translation, const NamedValue& value);

}  // namespace stepcast
