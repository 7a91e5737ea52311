#include "translate/translate.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/families/families.h"
#include "model/files/whole_files.h"
#include "translate/readers.h"

namespace stepcast {
namespace {

bool has(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

// ---- what a file of another tool is, by what it holds

constexpr std::size_t largest = 16 << 20;  // larger files are logs or traces

std::string read_described(const std::string& path) {
    return plain_utf8(read_text(path, "a script, a configuration or a description of a machine", largest));
}

// The format of a machine description, or none.
ForeignFormat recognise_machine(const std::string& text, bool markup) {
    if (markup) {
        if (has(text, "<nvidia_smi_log")) return ForeignFormat::nvidia_smi;
        if (has(text, "<graphs")) return ForeignFormat::nccl_graph;
        return has(text, "<system") ? ForeignFormat::nccl_topology : ForeignFormat::none;
    }
    if (has(text, "GPU0") && (has(text, " X ") || has(text, "\tX")) &&
        (has(text, "CPU Affinity") || has(text, "SYS") || has(text, "NV") || has(text, "PIX")))
        return ForeignFormat::topology_matrix;
    if ((has(text, "3D controller") || has(text, "VGA compatible controller") || has(text, "Processing accelerators")) &&
        (has(text, "NVIDIA") || has(text, "Advanced Micro Devices")) && (has(text, "bridge") || has(text, ".0 ")))
        return ForeignFormat::lspci;
    return ForeignFormat::none;
}

// The format of Megatron-LM's --yaml-cfg: the flags' destinations in tables.
bool is_yaml_configuration(const std::string& text) {
    return has(text, "language_model:") && has(text, "model_parallel:") && has(text, "num_layers:");
}

// The format of a configuration or launch script, or none.
ForeignFormat recognise_training(const std::string& text, const std::string& path) {
    if (has(text, "MODEL_ARGS:") && has(text, "--")) return ForeignFormat::megatron;
    if (is_argument_dump(text) || is_yaml_configuration(text)) return ForeignFormat::megatron;
    if (has(text, "[parallelism]") && (has(text, "_parallel_degree") || has(text, "flavor"))) return ForeignFormat::torchtitan;
    if (has(text, "flavor") && has(text, "[model]")) return ForeignFormat::torchtitan;
    if (has(text, "perf_matrix:") || has(text, "ConfigContainer:")) return ForeignFormat::megatron_bridge;
    const bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
    if (has(text, "trainer:") && has(text, "model:")) return ForeignFormat::nemo;
    if (yaml && has(text, "model:") && (has(text, "train:") || has(text, "ddp:"))) return ForeignFormat::megatron_bridge;
    const bool script = text.starts_with("#!") || path.ends_with(".sh") || path.ends_with(".sbatch");
    if (has(text, "--num-layers") || has(text, "--tensor-model-parallel-size") || has(text, "--micro-batch-size") ||
        has(text, "model.tensor_model_parallel_size="))
        return script || has(text, "torchrun") || has(text, "python") ? ForeignFormat::megatron : ForeignFormat::none;
    return ForeignFormat::none;
}

// ---- what it says

// DeepSpeed configurations (JSON) that a script writes for its own launch.
std::vector<Document> deepspeed_documents(Document& d, const ShellLaunch& launch) {
    std::vector<Document> found;
    if (d.states("deepspeed") || d.states("deepspeed_config"))
        for (const auto& [text, at] : launch.documents) found.push_back(read_yaml(text, at));
    return found;
}

// Adds their precision, stage and batch where no flag states them.
void add_deepspeed(Document& d, const ShellLaunch& launch) {
    for (const Document& json : deepspeed_documents(d, launch))
        for (const auto& [theirs, flag] : {std::pair{"bf16.enabled", "bf16"}, {"fp16.enabled", "fp16"},
                                           {"zero_optimization.stage", "zero_stage"}, {"train_batch_size", "global_batch_size"},
                                           {"train_micro_batch_size_per_gpu", "micro_batch_size"}})
            for (const NamedValue& value : json.values)
                if (value.name == theirs && !value.value.empty() && !d.states(flag)) d.add(flag, value.value, json.path);
}

// An error may come from a variable that the script leaves to its caller, so the message names such variables.
template <typename Translate>
Translation naming_unknown(const ShellLaunch& launch, Translate translate) {
    try {
        return translate();
    } catch (const ConfigError& error) {
        if (launch.unknown.empty()) throw;
        throw ConfigError(fmt::format("{}; not set in the script: {}; say it with --env", error.what(), fmt::join(launch.unknown, ", ")));
    }
}

// Megatron-LM has one program per kind of model, with mostly the same flags. A `model` given by the caller takes precedence.
void take_program(const ShellLaunch& launch, const std::string& model, Translation& t) {
    const auto program = std::ranges::find_if(launch.arguments, [](const ShellArgument& a) { return a.text.ends_with(".py"); });
    if (program == launch.arguments.end() || !model.empty()) return;
    const auto name = std::filesystem::path(program->text).filename().string();
    auto words = "_" + name.substr(0, name.size() - 3) + "_";
    std::ranges::replace(words, '-', '_');
    if (has(words, "_bert_")) t.set("workload.causal", "false", program->at);
    for (const auto& [word, what] : {std::pair{"_t5_", "an encoder with a decoder"}, {"_retro_", "layers that attend to retrieved text"},
                                     {"_vlm_", "a vision tower before the layers"}, {"_mamba_", "layers of Mamba among those of attention"}})
        if (has(words, word))
            throw ConfigError(fmt::format("{}: found {}, which trains {}; expected pretrain_gpt.py or pretrain_bert.py, or a preset of its model "
                                          "with --model", program->at, name, what));
}

Translation translate_script(const std::string& text, const std::string& path, const TranslateOptions& options) {
    const auto launch = read_launch(text, path, options.environment);
    Document d = megatron_arguments(launch.arguments, path);
    add_deepspeed(d, launch);
    for (const auto& [name, value] : launch.directives) {
        auto key = "sbatch_" + name;
        std::ranges::replace(key, '-', '_');
        d.values.insert(d.values.begin(), {key, value, path});
    }
    const std::initializer_list<std::string_view> nodes{"nnodes", "nodes", "sbatch_nodes", "num_nodes"},
        devices{"nproc_per_node", "ntasks_per_node", "sbatch_ntasks_per_node", "gpus_per_node", "num_gpus"};
    const auto* each = d.find_any(devices);
    const auto* count = d.find_any(nodes);
    const auto digits = [](const NamedValue* v) {
        return v && !v->value.empty() && v->value.find_first_not_of("0123456789") == std::string::npos;
    };
    // torchrun runs on one node by default. Slurm's tasks per node apply to as many nodes as the submitter requests.
    const bool of_slurm = each && each->name.find("ntasks_per_node") != std::string::npos;
    const bool told = digits(each) && (digits(count) || (!count && !of_slurm));
    const long per_node = told ? count_in(*each) : 0, ranks = per_node * (told && count ? count_in(*count) : 1);
    // Overrides of a recipe ("model.tensor_model_parallel_size=4") belong to Megatron-Bridge.
    const bool dotted = std::ranges::any_of(d.values, [](const NamedValue& v) { return v.name.find('.') != std::string::npos; });
    if (dotted) drop_bridge_sections(d);
    Translation t = naming_unknown(launch, [&] { return translate_megatron(d, dotted ? MegatronDialect::bridge : MegatronDialect::lm, ranks); });
    take_program(launch, options.model, t);
    for (Document& json : deepspeed_documents(d, launch)) name_unmodelled(json, t);
    if (ranks > 0) {
        t.set("cluster.nodes", ranks / per_node, each->at);
        t.set("cluster.gpus_per_node", per_node, each->at);
    }
    for (const auto& variable : launch.unknown) t.open.push_back("variable " + variable + " is not set; say it with --env");
    for (const auto& note : launch.notes) t.open.push_back(note);
    return t;
}

// The flags are under MODEL_ARGS: {"--flag": value}.
Translation translate_megatron_yaml(Document d) {
    for (auto& value : d.values) {
        const auto at = value.name.find("--");
        if (at != std::string::npos) value.name = value.name.substr(at + 2);
        std::ranges::replace(value.name, '-', '_');
    }
    return translate_megatron(d, MegatronDialect::lm, 0);
}

// The dump of a run's arguments, which states every default and the world size.
Translation translate_dump(Document d) {
    const auto* world = d.find("world_size");
    Translation t = translate_megatron(d, MegatronDialect::lm, world ? integer_in(*world) : 0, true);
    if (world) t.open.push_back(fmt::format("the machine of its {} ranks: say it with --cluster and --gpus {}", world->value, world->value));
    return t;
}

// Megatron-LM's --yaml-cfg, with the flags' destinations in tables.
Translation translate_yaml_arguments(Document d) {
    drop_sections(d, {"language_model.", "model_parallel.", "training."});
    return translate_megatron(d, MegatronDialect::lm, 0, true);
}

// Reading it here reports now what the forecast would refuse.
Translation translate_hub_config(const std::string& path) {
    Translation t{.path = path, .format = "config.json"};
    t.set("workload.preset", std::filesystem::absolute(path).string(), path);
    t.ignored = read_hub_config(path).notes;
    Experiment named;
    set_key(named, {"workload.preset", std::filesystem::absolute(path).string()});
    if (named.workload.seq == 0) t.open.push_back("seq: the file has the longest context, not the length that is trained; say it with --set seq=N");
    t.open.push_back("split and machine: say them with --set, --cluster and --gpus");
    return t;
}

// Sets the model that the file leaves to a recipe or to code.
void add_model(Translation& t, const std::string& model) {
    if (model.empty()) return;
    t.set("workload.preset", model, "--model");
    std::erase_if(t.open, [](const std::string& line) { return line.find("--model") != std::string::npos; });
}

}  // namespace

ForeignFormat parse_foreign_format(std::string_view text, std::span<const std::string_view> others) {
    std::vector<std::string_view> valid{"auto"};
    valid.insert(valid.end(), others.begin(), others.end());
    valid.insert(valid.end(), name_list<ForeignFormat>.begin(), name_list<ForeignFormat>.end());
    return parse_name<ForeignFormat>(valid[index_of_name(text, "a format of --format", valid)]);
}

bool is_cluster(ForeignFormat format) {
    return format >= ForeignFormat::topology_matrix && format <= ForeignFormat::lspci;
}

ForeignFormat recognise_foreign(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (!is_standard_input(path) && (!fs::is_regular_file(path, error) || fs::file_size(path, error) > largest))
        return ForeignFormat::none;
    std::string text;
    try {
        text = read_described(path);
    } catch (const ConfigError&) {
        return ForeignFormat::none;
    }
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return ForeignFormat::none;
    const bool markup = text[first] == '<';
    if (const auto machine = recognise_machine(text, markup); markup || machine != ForeignFormat::none) return machine;
    if (has(text, "\"traceEvents\"")) return ForeignFormat::none;
    if (text[first] == '{') {
        if (has(text, "\"model_type\"") || has(text, "\"architectures\"")) return ForeignFormat::hub_config;
        if (has(text, "train_batch_size") || has(text, "train_micro_batch_size_per_gpu") || has(text, "zero_optimization"))
            return ForeignFormat::deepspeed;
        return ForeignFormat::none;
    }
    return recognise_training(text, path);
}

Translation translate(const std::string& path, const TranslateOptions& options) {
    const auto format = options.format == ForeignFormat::none ? recognise_foreign(path) : options.format;
    Translation t = translate_text(read_described(path), path, format, options);
    name_what_is_refused(t);
    return t;
}

Translation translate_text(const std::string& text, const std::string& path, ForeignFormat format, const TranslateOptions& options) {
    Translation t;
    switch (format) {
        case ForeignFormat::megatron:
            t = has(text, "MODEL_ARGS:")       ? translate_megatron_yaml(read_yaml(text, path))
                : is_argument_dump(text)       ? translate_dump(dumped_arguments(text, path))
                : is_yaml_configuration(text) ? translate_yaml_arguments(read_yaml(text, path))
                                               : translate_script(text, path, options);
            break;
        case ForeignFormat::nemo: t = translate_nemo(read_yaml(text, path)); break;
        case ForeignFormat::megatron_bridge: t = translate_bridge(read_yaml(text, path), options.variant); break;
        case ForeignFormat::torchtitan: t = translate_torchtitan(read_toml_values(text, path), options.model, options.replicas); break;
        case ForeignFormat::deepspeed: t = translate_deepspeed(read_yaml(text, path), options.replicas); break;
        case ForeignFormat::hub_config: return translate_hub_config(path);
        default:
            throw ConfigError(path + ": is no launch script or configuration that is known; expected Megatron-LM "
                              "arguments, NeMo or Megatron-Bridge YAML, torchtitan TOML, DeepSpeed JSON or a config.json");
    }
    add_model(t, options.model);
    if (options.replicas > 0) std::erase_if(t.open, [](const std::string& line) { return line.starts_with("how many GPUs"); });
    return t;
}

}  // namespace stepcast
