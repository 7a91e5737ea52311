#include "import/launch/trainer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <span>

#include <fmt/format.h>

#include "import/launch/deepspeed.h"
#include "import/launch/document.h"
#include "import/launch/json_text.h"
#include "import/launch/launch_flags.h"
#include "import/launch/launch_script.h"
#include "import/launch/liger.h"
#include "import/launch/shell_launch.h"
#include "import/launch/tool_files.h"
#include "import/launch/translation.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"

namespace stepcast {

namespace {

using LaunchArguments = std::vector<ShellArgument>;

Document read_named(const std::string& file) {
    return read_json_or_yaml(plain_utf8(read_text(file, "a configuration of a training")), file);
}

// Where the launcher's own flags end: behind the program, a file or, after -m, a module.
std::size_t behind_program(const LaunchArguments& all) {
    std::size_t module = all.size();
    for (const std::size_t i : indices_of(all)) {
        if (all[i].text.ends_with(".py")) return i + 1;
        if ((all[i].text == "-m" || all[i].text == "--module") && i + 1 < all.size())
            module = i + 2;
        if (all[i].text == "llamafactory-cli" || all[i].text == "trl" || all[i].text == "axolotl")
            return std::min(i + 2, all.size());
    }
    return std::min(module, all.size());
}

LaunchArguments behind_accelerate(const LaunchArguments& all) {
    const auto at = std::ranges::find(all, "launch", &ShellArgument::text);
    return at == all.end() ? all : LaunchArguments(at + 1, all.end());
}

// The program by its name: run_clm of run_clm.py, sft of trl.scripts.sft and of trl sft.
std::string name_of_program(const LaunchArguments& all) {
    const auto end = behind_program(all);
    const std::string last = end > 0 ? all[end - 1].text : "";
    if (last.ends_with(".py")) return std::filesystem::path(last).stem().string();
    return last.substr(last.find_last_of('.') + 1);
}

// accelerate puts what its file has in tables beside its flags, under the flags' names: of
// fsdp_config, "version" is fsdp_version.
void flatten_tables(Document& d) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> tables{
        {{"fsdp_config.", "fsdp_"},
         {"model_init_kwargs.", ""},
         {"fp8_config.", "fp8_"},
         {"dynamo_config.", "dynamo_"},
         {"deepspeed_config.", ""},
         {"megatron_lm_config.", ""},
         {"parallelism_config.", ""}}};
    for (NamedValue& value : d.values)
        for (const auto& [table, prefix] : tables)
            if (value.name.starts_with(table)) {
                value.name.erase(0, table.size());
                if (!value.name.starts_with(prefix)) value.name.insert(0, prefix);
            }
}

// What flags switch on as what the file names: --use_fsdp is distributed_type FSDP.
void name_distribution(Document& d) {
    for (const auto& [flag, type] : {std::pair{"multi_gpu", "MULTI_GPU"},
                                     {"use_fsdp", "FSDP"},
                                     {"use_deepspeed", "DEEPSPEED"},
                                     {"use_megatron_lm", "MEGATRON_LM"}})
        if (const auto* v = d.on(flag)) d.add("distributed_type", type, v->at);
}

// A flag's value that is JSON itself, where others name a file (training_args.py:
// _VALID_DICT_FIELDS).
bool is_json_itself(const std::string& value) { return value.starts_with('{'); }

// The values of a file that the launch names, before those that `d` has, which override them.
void put_below(Document& d, const NamedValue& named, const std::string& prefix, Translation& t) {
    const bool itself = is_json_itself(named.value);
    const auto path = itself ? "" : found_file(named.value, t.path);
    if (path.empty() && !itself) {
        t.lacks_file(fmt::format("{} ({}): {} is not there: what it says is not known", named.name,
                                 named.at, named.value));
        return;
    }
    Document file = itself ? read_json_or_yaml(named.value, named.at) : read_named(path);
    for (NamedValue& value : file.values) {
        value.name.insert(0, prefix);
        if (itself) value.at = named.at;
    }
    d.values.insert(d.values.begin(), file.values.begin(), file.values.end());
}

// Tables of the Trainer's arguments may stand in files of their own, or be JSON on the line
// (transformers 5.24, training_args.py: _VALID_DICT_FIELDS).
void read_tables(Document& d, Translation& t) {
    for (const std::string table : {"fsdp_config", "accelerator_config", "model_init_kwargs"}) {
        const auto* file = d.find(table);
        if (!file || !(is_configuration(file->value) || is_json_itself(file->value))) continue;
        put_below(d, NamedValue(*file), table + ".", t);
        for (NamedValue& value : d.values)
            if (value.name == table) value.null = value.used = true;
    }
}

// "cutoff_len=4096" behind the file that a program reads, which counts above it (LLaMA-Factory
// 0.9.5, hparams/parser.py: read_args).
void put_words_above(std::span<const ShellArgument> words, Document& d) {
    for (const auto& [text, at] : words)
        if (const auto equals = text.find('='); equals != std::string::npos && text[0] != '-')
            d.add(text.substr(0, equals), text.substr(equals + 1), at);
}

// What its launcher takes from the environment (LLaMA-Factory 0.9.5, launcher.py).
void take_environment(const ShellLaunch& launch, Document& launcher, const std::string& path) {
    if (std::ranges::none_of(launch.arguments, [](const ShellArgument& a) {
            return std::filesystem::path(a.text).filename() == "llamafactory-cli";
        }))
        return;
    for (const auto& [variable, flag] :
         {std::pair{"NPROC_PER_NODE", "nproc_per_node"}, {"NNODES", "nnodes"}})
        if (const auto found = launch.environment.find(variable); found != launch.environment.end())
            launcher.add(flag, found->second, fmt::format("{}, {}", path, variable));
}

// Flags of the launcher, then of the program, each above the files that it names.
Document launched_values(const ShellLaunch& launch, Translation& t) {
    const auto& all = launch.arguments;
    const auto split = all.begin() + static_cast<std::ptrdiff_t>(behind_program(all));
    Document launcher = megatron_arguments({all.begin(), split}, t.path);
    for (NamedValue& value : launcher.values)  // as many as a node has
        if (value.name == "nproc_per_node" && value.value == "gpu") value.value = "auto";
    for (const auto& [name, value] : launch.directives) {
        auto key = "sbatch_" + name;
        std::ranges::replace(key, '-', '_');
        launcher.values.insert(launcher.values.begin(), {key, value, t.path});
    }
    if (const auto* file = launcher.find("config_file"))
        put_below(launcher, NamedValue(*file), "", t);
    name_distribution(launcher);
    take_environment(launch, launcher, t.path);
    Document program = megatron_arguments({split, all.end()}, t.path);
    if (const auto* file = program.find("config"); file && is_configuration(file->value))
        put_below(program, NamedValue(*file), "", t);
    if (split != all.end() && !split->text.starts_with("--") && is_configuration(split->text)) {
        put_below(program, {"configuration", split->text, split->at}, "", t);
        put_words_above({split + 1, all.end()}, program);
    }
    read_tables(program, t);
    append(launcher.values, program.values);
    return launcher;
}

// "full_shard auto_wrap offload": how the Trainer said until 5.20 what its fsdp_config says since.
void split_fsdp_words(Document& d) {
    const auto* stated = d.find("fsdp");
    if (!stated) return;
    const NamedValue words = *stated;
    for (const std::string& word : words_of(lower_case(words.value), " ,[]'\""))
        if (word == "offload")
            d.add("fsdp_offload_params", "true", words.at);
        else if (word != "auto_wrap")
            d.add("fsdp", word, words.at);
}

// What accelerate's launcher and file state, then the program's own, then what it has of the
// Trainer. The last of several statements of a key counts, and the first of several defaults.
Tool with_shared_keys(const Tool& program) {
    Tool all = program;
    all.keys = tool_named("accelerate").keys;
    append(all.keys, program.keys);
    append(all.quiet, tool_named("accelerate").quiet);
    if (program.id == "trl" || program.id == "llama-factory") {
        // what the program has other words for
        const auto own = [&](const ToolKey& key) {
            return key.key == "without" && contains(program.keys, key.names, &ToolKey::names);
        };
        for (const ToolKey& key : tool_named("trainer").keys)
            if (!own(key)) all.keys.push_back(key);
        append(all.quiet, tool_named("trainer").quiet);
    }
    return all;
}

// What take_listed() has put among the keys for the decisions below, removed there.
Setting decided_by(const std::string& name, const std::string& otherwise, Translation& t) {
    const auto* found = t.find(name);
    Setting decided = found ? *found : Setting{name, otherwise, ""};
    std::erase_if(t.settings, [&](const Setting& s) { return s.key == name; });
    std::erase_if(t.defaulted,
                  [&](const std::string& line) { return line.starts_with(name + " = "); });
    return decided;
}

// Sets a key to what follows from a decision; what follows from a default is one.
void conclude(const std::string& key, const std::string& value, const Setting& from,
              Translation& t) {
    if (from.at.empty() || from.at.starts_with("default of "))
        t.take_default(key, value);
    else
        t.set(key, value, from.at);
}

struct Decisions {
    // mixed: precision beside fp32 weights, "none" without; loaded: type of the weights as training
    // begins; sharding: 0, 2, 3, hybrid, hybrid2, deepspeed or megatron
    Setting mixed, loaded, sharding, stage;
    [[nodiscard]] bool is_mixed() const { return mixed.value != "none"; }
    [[nodiscard]] const Setting& computing() const { return is_mixed() ? mixed : loaded; }
};

// ---- DeepSpeed's configuration below the Trainer

// Of the model that is named so far; 0 = none.
long hidden_of(const Translation& t, const std::string& model) {
    const auto* stated = t.find("workload.preset");
    if (!stated && model.empty()) return 0;
    Experiment named;
    set_key(named, {"workload.preset", model.empty() ? stated->value : model});
    return named.workload.hidden;
}

// "auto" is what the Trainer's own arguments and the model say (integrations/deepspeed.py:
// trainer_config_process, trainer_config_finalize).
void fill_automatic(Document& json, const std::string& mixed, long hidden) {
    for (NamedValue& value : json.values) {
        if (value.value != "auto") continue;
        if (value.name == "bf16.enabled")
            value.value = truth(mixed == "bf16" || mixed == "fp8");
        else if (value.name == "fp16.enabled")
            value.value = truth(mixed == "fp16");
        else if (value.name == "zero_optimization.reduce_bucket_size" && hidden > 0)
            value.value = std::to_string(hidden * hidden);
        else
            value.null = value.used = true;  // as the launch says, or DeepSpeed's default
    }
}

// The batch of the configuration where no flag states it; the Trainer stops where both do and
// differ.
void take_batch_below(Document& json, Document& d, Translation& t) {
    for (const auto& [theirs, flag] :
         {std::pair{"train_micro_batch_size_per_gpu", "per_device_train_batch_size"},
          {"gradient_accumulation_steps", "gradient_accumulation_steps"},
          {"train_batch_size", "train_batch_size"}}) {
        const auto *below = json.find(theirs), *own = d.find(flag);
        if (!below || below->value == "auto") continue;
        if (!own || own->value == "auto")
            d.add(flag, below->value, below->at);
        else if (integer_in(*own) != integer_in(*below))
            t.problem(*below, fmt::format("{}, but {} = {} ({}); the Trainer stops there, the "
                                          "forecast has the latter",
                                          below->value, flag, own->value, own->at));
    }
}

// DeepSpeed's AutoTP splits the model over as many ranks, which share a batch (accelerate 1.15,
// accelerator.py: _prepare_deepspeed; transformers 5.24, trainer.py: get_tp_size).
void take_tensor_ranks(Document& json, Document& d) {
    if (const auto* ranks = json.find("tensor_parallel.autotp_size");
        ranks && integer_in(*ranks) > 1)
        d.add("parallelism_config_tp_size", ranks->value, ranks->at);
}

// A precision that the configuration has no section for is switched on there by the launch; one
// that contradicts it stops (accelerate 1.15, utils/dataclasses.py: set_mixed_precision).
void add_precision(Document& json, const Setting& mixed, Translation& t) {
    if (mixed.value == "none") return;
    const bool half = mixed.value == "fp16";
    const std::string own = half ? "fp16" : "bf16", other = half ? "bf16" : "fp16";
    if (std::ranges::none_of(json.values, [&](const NamedValue& v) {
            return v.name == own || v.name.starts_with(own + ".");
        }))
        json.add(own + ".enabled", "true", mixed.at);
    if (const auto* on = json.find(other + ".enabled"); on && lower_case(on->value) == "true")
        t.problem(*on, fmt::format("but {} by the launch ({}); accelerate stops there", mixed.value,
                                   mixed.at));
}

void take_deepspeed(Document json, const Setting& mixed, const std::string& model, Translation& t) {
    add_precision(json, mixed, t);
    fill_automatic(json, mixed.value, hidden_of(t, model));
    Translation own{.path = json.path, .format = "DeepSpeed"};
    (void)json.find("tensor_parallel.autotp_size");  // take_tensor_ranks() has read it
    take_deepspeed_training(json, own, 0);
    leave_rest(json, own);
    std::erase_if(own.settings, [](const Setting& s) {
        return s.key.ends_with("_batch") || s.key == "workload.optimizer";
    });
    for (const Setting& setting : own.settings) t.set(setting.key, setting.value, setting.at);
    append(t.defaulted, own.defaulted);
    append(t.problems, own.problems);
    std::ranges::copy_if(own.open, std::back_inserter(t.open), [](const std::string& line) {
        return has(line, "filled in by a template");
    });
    for (const std::string& name : own.ignored) add_line(t.ignored, "{} ({})", name, json.path);
}

// The file that --deepspeed or accelerate's configuration names; nothing if it is not there.
std::vector<Document> deepspeed_file(Document& d, Translation& t) {
    for (const char* name : {"deepspeed", "deepspeed_config_file"}) {
        const auto* file = d.find(name);
        if (file && is_json_itself(file->value)) return {read_json_or_yaml(file->value, file->at)};
        if (!file || !is_configuration(file->value)) continue;
        if (const auto path = found_file(file->value, t.path); !path.empty())
            return {read_named(path)};
    }
    return {};
}

void decide_deepspeed(const Decisions& what, const std::vector<Document>& files,
                      const std::string& model, Document& d, Translation& t) {
    t.framework = "deepspeed-transformers";
    if (!files.empty()) {  // says itself what its name says where it is not there
        std::erase_if(t.settings, [](const Setting& s) {
            return s.key.starts_with("run.offload_") && s.key != "run.offload_activations";
        });
        return take_deepspeed(files.front(), what.mixed, model, t);
    }
    // accelerate without a file of DeepSpeed's (utils/dataclasses.py: DeepSpeedPlugin)
    conclude("workload.dtype", what.is_mixed() ? what.mixed.value : "fp32", what.mixed, t);
    const auto* file = d.find_any({"deepspeed", "deepspeed_config_file"});
    if (!what.stage.value.empty())
        conclude("parallelism.zero", what.stage.value, what.stage, t);
    else if (file && is_configuration(file->value))
        t.lacks_file(
            fmt::format("{} ({}): {} is not there, which has ZeRO's stage, buckets and "
                        "precision; use --set zero=N",
                        file->name, file->at, file->value));
    else
        t.take_default("parallelism.zero", "2");
}

// ---- precision and shards

// What a checkpoint is loaded in where nothing says it.
void name_loaded(const Decisions& what, Translation& t) {
    if (!what.loaded.at.empty() && !what.loaded.at.starts_with("default of ")) return;
    if (what.loaded.value == "fp32")
        return t.open.push_back("weights are taken as loaded in fp32, the tool's default");
    add_line(t.open,
             "weights are taken as loaded in {}, as in most checkpoints (transformers 5); where "
             "they are fp32, as version 4 loads them unless told: {}",
             what.loaded.value,
             what.is_mixed() ? "--set runtime.autocast=true --set runtime.gradients.type=fp32 "
                               "--set runtime.optimizer.master_weights=true"
                             : "--set workload.dtype=fp32");
}

// FSDP keeps fp32 weights where the precision is mixed, whatever the model was loaded in
// (accelerator.py, fsdp_utils.py), and gathers and reduces in the narrow type
// (utils/dataclasses.py: set_mixed_precision).
void decide_fsdp(const Decisions& what, long each, Document& d, Translation& t) {
    const std::string& way = what.sharding.value;
    conclude("parallelism.zero",
             way == "hybrid"    ? "3"
             : way == "hybrid2" ? "2"
                                : way,
             what.sharding, t);
    if (way == "hybrid2")
        add_line(t.problems,
                 "HYBRID_SHARD_ZERO2 ({}): the forecast shards gradients and states over all "
                 "ranks, not within a node",
                 what.sharding.at);
    else if (way == "hybrid")
        shard_in_node(each, what.sharding, t);
    conclude("workload.dtype", what.computing().value, what.computing(), t);
    conclude("runtime.optimizer.master_weights", truth(what.is_mixed()), what.mixed, t);
    if (what.is_mixed() && what.mixed.value != "fp8")
        conclude("runtime.gradients.type", what.mixed.value, what.mixed, t);
    if (!what.is_mixed()) name_loaded(what, t);
    for (const char* name : {"fsdp_offload_params", "fsdp_cpu_offload"})
        if (const auto* host = d.on(name)) keep_on_host(*host, t);
}

// DistributedDataParallel, or one GPU, in Trainer's loop: under autocast weights keep the type in
// which they were loaded. The framework's file is of fp32 weights under autocast.
void decide_replicas(const Decisions& what, Document& d, Translation& t) {
    const bool wide = what.loaded.value == "fp32";
    t.framework = "transformers-trainer";
    if (what.is_mixed() && wide) {
        // compiled kernels cast as they read
        if (const auto* kernels = t.find("runtime.kernels"); kernels && kernels->value == "fused")
            t.set("runtime.autocast", "false", std::string(kernels->at));
    } else {
        conclude("runtime.autocast", "false", what.loaded, t);
        conclude("runtime.gradients.type", "training", what.loaded, t);
        conclude("runtime.optimizer.master_weights", "false", what.loaded, t);
    }
    const auto* narrow = d.on("tf32");
    if (!what.is_mixed() && wide && narrow)
        t.set("workload.dtype", "tf32", narrow->at);
    else
        conclude("workload.dtype", what.computing().value, what.computing(), t);
    conclude("parallelism.zero", "0", what.sharding, t);
    t.take(
        "runtime.gradients.bucket", d.find("ddp_bucket_cap_mb"),
        [](const NamedValue& v) { return std::to_string(count_in(v)) + " MiB"; }, "25 MiB");
    name_loaded(what, t);
}

void decide(const Decisions& what, const std::vector<Document>& files, const std::string& model,
            Document& d, Translation& t) {
    const std::string& way = what.sharding.value;
    if (way == "deepspeed") return decide_deepspeed(what, files, model, d, t);
    if (way == "megatron") {
        t.framework = "megatron-core";
        return conclude("workload.dtype", what.computing().value, what.mixed, t);
    }
    if (way.empty()) return decide_replicas(what, d, t);
    decide_fsdp(what, t.count("cluster.gpus_per_node", 0), d, t);
}

// Replicas of shards (accelerate's parallelism_config.py; axolotl's schemas/config.py):
// dp_replicate_size groups of dp_shard_size.
void take_groups(Document& d, Translation& t) {
    const auto* copies = d.find_any({"parallelism_config_dp_replicate_size", "dp_replicate_size"});
    const auto* shards = d.find_any({"parallelism_config_dp_shard_size", "dp_shard_size"});
    if (copies && shards && count_in(*copies) > 1 && count_in(*shards) > 1)
        t.set("parallelism.shard", count_in(*shards) * t.count("parallelism.cp", 1), shards->at);
    if (const auto* heads = d.find("parallelism_config_sp_size"); heads && integer_in(*heads) > 1)
        t.problem(
            *heads,
            "exchanges of heads (Ulysses) are not modelled; taken as a ring of keys and values");
}

// Whether the scales of four bits are packed again: bitsandbytes' bnb_4bit_use_double_quant, under
// each tool's name.
void take_nested_scales(Document& d, Translation& t) {
    const auto* frozen = t.find("workload.frozen");
    const auto* nested = d.find_any({"double_quantization", "use_bnb_nested_quant",
                                     "bnb_config_kwargs.bnb_4bit_use_double_quant"});
    if (nested && frozen && frozen->value.starts_with("nf4"))
        t.set("workload.frozen", flag_in(*nested) ? "nf4_double" : "nf4", nested->at);
}

// What axolotl moves to the host beside adapters is not computed again; of weights that are all
// trained it moves what checkpoints keep (0.19, core/builders/base.py, loaders/model.py).
void keep_offloaded(Document& d, Translation& t) {
    const auto* moved = t.find("run.offload_activations");
    const auto* way = d.find("activation_offloading");
    const bool of_checkpoints = way && way->value == "hidden_states";
    if (moved && moved->value != "none" && !of_checkpoints &&
        t.count("workload.adapter_rank", 0) > 0)
        t.set("parallelism.recompute", "none", std::string(moved->at));
}

// LoRA's flags count only where the tool's switch asks for adapters.
void drop_adapters(const Tool& tool, Document& d, Translation& t) {
    const auto holds = [&](const auto& pair) {
        const auto* v = d.find(pair.first);
        const std::string word = v ? lower_case(v->value) : "";
        return pair.second == (word == "yes" || word == "on" ? "true" : word);
    };
    if (tool.adapters.empty() || std::ranges::any_of(tool.adapters, holds)) return;
    for (NamedValue& value : d.values) {
        if (!value.name.starts_with("lora_") || value.null) continue;
        value.null = value.used = true;
        t.ignored.push_back(fmt::format("{} ({}): {} asks for no adapters", value.name, value.at,
                                        tool.adapters.front().first));
    }
}

// A flag that no rule knows is a problem if its name is of what changes a step.
void judge_rest(Document& d, Translation& t) {
    name_unmodelled(d, t);
    std::set<std::string> seen;
    for (NamedValue& value : d.values) {
        if (value.used || value.null || !seen.insert(value.name).second) continue;
        const auto* last = d.find(value.name);
        const auto own = value.name.substr(value.name.find_last_of('.') + 1);  // below its table
        if (launch_flags().speaks_of_step(own) && last && !changes_nothing(last->value))
            t.problem(*last, last->value.substr(0, 40) +
                                 "; not known here, and its name is of what changes a step: the "
                                 "forecast is without it");
        else
            t.ignored.push_back(value.name);
    }
}

Translation read_values(const Tool& tool, Document d, Translation t, const TranslateOptions& o) {
    t.format = tool.name;
    t.framework = tool.framework;
    require_trains(tool, d);
    read_tables(d, t);
    flatten_tables(d);
    split_fsdp_words(d);
    drop_adapters(tool, d, t);
    const auto files = deepspeed_file(d, t);
    for (Document json : files) {
        take_batch_below(json, d, t);
        take_tensor_ranks(json, d);
    }
    if (const auto* flag = d.find("deepspeed"); flag && lower_case(flag->value) != "false")
        d.add("distributed_type", "DEEPSPEED", flag->at);
    take_listed(tool, d, t, o.replicas);
    const Decisions what{decided_by("mixed", "none", t), decided_by("loaded", "bf16", t),
                         decided_by("sharding", "", t), decided_by("stage", "", t)};
    decide(what, files, o.model, d, t);
    take_nested_scales(d, t);
    if (tool.id == "axolotl") keep_offloaded(d, t);
    take_groups(d, t);
    take_liger(tool, d, t);
    set_aside(tool, d, t);
    judge_rest(d, t);
    return t;
}

Translation read_program(const Tool& tool, Document d, Translation t,
                         const TranslateOptions& options) {
    t = read_values(with_shared_keys(tool), std::move(d), std::move(t), options);
    if (!t.find("workload.seq"))
        t.open.emplace_back("sequence length: not stated; use --set seq=N");
    const auto names_model = [](const std::string& line) { return has(line, "--model"); };
    if (options.model.empty() && !t.find("workload.preset") &&
        std::ranges::none_of(t.open, names_model))
        t.open.emplace_back("layers and widths: name a preset or a config.json with --model");
    return t;
}

}  // namespace

bool is_of_trainer(const Tool& tool) {
    static constexpr std::array ids{"accelerate", "trainer", "trl", "llama-factory", "axolotl"};
    return contains(ids, tool.id);
}

Translation translate_trainer(const Tool& tool, Document d, const TranslateOptions& options) {
    Translation t{.path = d.path};
    if (tool.id != "accelerate") return read_program(tool, std::move(d), std::move(t), options);
    t = read_values(tool, std::move(d), std::move(t), options);
    t.open.emplace_back(
        "micro-batch, sequence length, model: in the program that accelerate starts, whose launch "
        "line has them; or use --set micro_batch=N, --set seq=N and --model");
    return t;
}

bool is_trainer_launch(const ShellLaunch& launch, const std::string& path) {
    static constexpr std::array flags{"--per_device_train_batch_size", "--model_name_or_path"};
    static constexpr std::array programs{"accelerate", "accelerate-launch", "llamafactory-cli",
                                         "trl"};
    const auto& all = launch.arguments;
    for (const ShellArgument& a : all) {
        const auto flag = a.text.substr(0, a.text.find('='));
        if (contains(flags, flag) ||
            contains(programs, std::filesystem::path(a.text).filename().string()) ||
            a.text == "accelerate.commands.launch")
            return true;
    }
    if (const Tool* started = tool_started(all); started && is_of_trainer(*started)) return true;
    // a program whose flags are all in a file: train.py run.yaml
    const auto split = behind_program(all);
    const auto file = split < all.size() && is_configuration(all[split].text)
                          ? found_file(all[split].text, path)
                          : "";
    if (file.empty()) return false;
    const Document d = read_named(file);
    const Tool* tool = tool_of(d);
    return tool && is_of_trainer(*tool);
}

Translation translate_trainer_launch(const ShellLaunch& launch, const std::string& path,
                                     const TranslateOptions& options) {
    Translation t{.path = path};
    Document d = launched_values(launch, t);
    const Tool* tool = tool_of(d);
    if (tool) require_read(*tool, path);
    const std::string program = name_of_program(launch.arguments);
    const Tool& trl = tool_named("trl");
    const auto script = first_with(trl.programs, program, &WordPairs::value_type::first);
    const auto has_defaults = [](const Tool* one) {
        return one && is_of_trainer(*one) && one->id != "accelerate" && one->id != "trainer";
    };
    // the file of its own may not be there
    if (const Tool* started = tool_started(behind_accelerate(launch.arguments));
        !has_defaults(tool))
        tool = has_defaults(started) ? started : script ? &trl : &tool_named("trainer");
    if (tool == &trl && script) d.add("trl_script", program, launch.arguments.front().at);
    t = read_program(*tool, std::move(d), std::move(t), options);
    if (tool == &trl && script && !script->second.empty())
        add_line(t.problems, "{} ({}): the forecast is without {}", program,
                 launch.arguments.front().at, script->second);
    return t;
}

}  // namespace stepcast
