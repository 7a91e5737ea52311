#include "translate/translate.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/families/hub_config.h"
#include "model/files/whole_files.h"
#include "translate/readers.h"
#include "translate/shell.h"

namespace stepcast {
namespace {

struct FormatName {
    ForeignFormat format;
    std::string_view name;
};
constexpr std::array<FormatName, 11> names{{{ForeignFormat::megatron, "megatron"},
                                            {ForeignFormat::nemo, "nemo"},
                                            {ForeignFormat::megatron_bridge, "megatron-bridge"},
                                            {ForeignFormat::torchtitan, "torchtitan"},
                                            {ForeignFormat::deepspeed, "deepspeed-config"},
                                            {ForeignFormat::hub_config, "config.json"},
                                            {ForeignFormat::topology_matrix, "topo"},
                                            {ForeignFormat::nccl_topology, "nccl-topology"},
                                            {ForeignFormat::nccl_graph, "nccl-graph"},
                                            {ForeignFormat::nvidia_smi, "nvidia-smi"},
                                            {ForeignFormat::lspci, "lspci"}}};

constexpr std::size_t largest = 16 << 20;  // a description; larger files are logs or traces

bool has(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

bool is_yaml_configuration(const std::string& text) {
    return has(text, "language_model:") && has(text, "model_parallel:") && has(text, "num_layers:");
}

std::string read_described(const std::string& path) {
    return plain_utf8(read_text(path, "a script, a configuration or a description of a machine", largest));
}

// Sections of NeMo and Megatron-Bridge are left out of names that one section alone has.
void drop_sections(Document& document, std::initializer_list<std::string_view> sections) {
    for (auto& value : document.values)
        for (const auto section : sections)
            if (value.name.starts_with(section)) {
                value.name.erase(0, section.size());
                break;
            }
}

void drop_bridge_sections(Document& d) {
    drop_sections(d, {"ConfigContainer."});
    drop_sections(d, {"model.", "train.", "ddp.", "dist."});
    for (auto& value : d.values)
        if (value.name == "mixed_precision.grad_reduce_in_fp32") value.name = "grad_reduce_in_fp32";
}

void set_machine(Translation& t, Document& d, std::initializer_list<std::string_view> nodes,
                 std::initializer_list<std::string_view> devices) {
    const auto *n = d.find_any(nodes), *g = d.find_any(devices);
    if (!g) return;
    t.set("cluster.nodes", n ? integer_in(*n) : 1, n ? n->at : g->at);
    t.set("cluster.gpus_per_node", integer_in(*g), g->at);
}

// DeepSpeed's JSON that a script writes for its own launch: precision, stage and batch that no flag states.
void add_deepspeed(Document& d, const ShellLaunch& launch) {
    if (!d.states("deepspeed") && !d.states("deepspeed_config")) return;
    for (const auto& [text, at] : launch.documents) {
        const Document json = read_yaml(text, at);
        for (const auto& [theirs, flag] : {std::pair{"bf16.enabled", "bf16"}, {"fp16.enabled", "fp16"},
                                           {"zero_optimization.stage", "zero_stage"}, {"train_batch_size", "global_batch_size"},
                                           {"train_micro_batch_size_per_gpu", "micro_batch_size"}})
            for (const NamedValue& value : json.values)
                if (value.name == theirs && !value.value.empty() && !d.states(flag)) d.add(flag, value.value, at);
    }
}

// A value that is refused may be a variable that the script leaves to its caller.
template <typename Translate>
Translation naming_unknown(const ShellLaunch& launch, Translate translate) {
    try {
        return translate();
    } catch (const ConfigError& error) {
        if (launch.unknown.empty()) throw;
        throw ConfigError(fmt::format("{}; not set in the script: {}; say it with --env", error.what(), fmt::join(launch.unknown, ", ")));
    }
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
    // torchrun's default is one node. Slurm's tasks a node are on as many nodes as the one who submits says.
    const bool of_slurm = each && each->name.find("ntasks_per_node") != std::string::npos;
    const bool told = digits(each) && (digits(count) || (!count && !of_slurm));
    const long ranks = told ? count_in(*each) * (count ? count_in(*count) : 1) : 0;
    const auto at = each ? each->at : "";
    const long per_node = told ? count_in(*each) : 0;
    // Overrides of a recipe ("model.tensor_model_parallel_size=4") are Megatron-Bridge's.
    const bool dotted = std::ranges::any_of(d.values, [](const NamedValue& v) { return v.name.find('.') != std::string::npos; });
    if (dotted) drop_bridge_sections(d);
    Translation t = naming_unknown(launch, [&] { return translate_megatron(d, dotted ? MegatronDialect::bridge : MegatronDialect::lm, ranks); });
    if (ranks > 0) {
        t.set("cluster.nodes", ranks / per_node, at);
        t.set("cluster.gpus_per_node", per_node, at);
    }
    for (const auto& variable : launch.unknown) t.open.push_back("variable " + variable + " is not set; say it with --env");
    for (const auto& note : launch.notes) t.open.push_back(note);
    return t;
}

// MODEL_ARGS: {"--flag": value}.
Translation translate_megatron_yaml(Document d) {
    for (auto& value : d.values) {
        const auto at = value.name.find("--");
        if (at != std::string::npos) value.name = value.name.substr(at + 2);
        std::ranges::replace(value.name, '-', '_');
    }
    return translate_megatron(d, MegatronDialect::lm, 0);
}

// LoRA of NeMo's fine-tuning files. Other schemes train other weights.
void take_adapters(Document& d, Translation& t) {
    const auto* scheme = d.find("peft.peft_scheme");
    if (!scheme || scheme->value.empty() || scheme->value == "none" || scheme->value == "null") return;
    if (scheme->value != "lora") wrong(*scheme, "lora or null: other schemes are not modelled");
    const auto* rank = d.find("peft.lora_tuning.adapter_dim");
    t.set("workload.adapter_rank", rank ? count_in(*rank) : 32, rank ? rank->at : "default of NeMo");
    const auto modules = d.text("peft.lora_tuning.target_modules", "[attention_qkv]");
    if (modules != "[attention]" && modules != "[attention_qkv, attention_dense]")
        t.problems.push_back(fmt::format("adapters of {}: the forecast has them at the projections of queries, keys and values and of "
                                         "attention's results", modules));
    std::erase_if(t.ignored, [](const std::string& name) {
        return name == "peft.peft_scheme" || name == "peft.lora_tuning.adapter_dim" || name == "peft.lora_tuning.target_modules";
    });
}

Translation translate_nemo(Document d) {
    interpolate(d);
    const auto *nodes = d.find("trainer.num_nodes"), *devices = d.find("trainer.devices");
    const long ranks = nodes && devices ? count_in(*nodes) * count_in(*devices) : 0;
    drop_sections(d, {"model.", "trainer."});
    Translation t = translate_megatron(d, MegatronDialect::nemo, ranks);
    set_machine(t, d, {"num_nodes"}, {"devices"});
    take_adapters(d, t);
    return t;
}

// What a table of configurations holds: "h100,64,fp8".
std::vector<std::string> variants_in(const Document& d) {
    std::vector<std::string> known;
    for (const auto& value : d.values) {
        std::vector<std::string> steps{""};
        for (const char c : value.name)
            if (c == '.')
                steps.emplace_back();
            else
                steps.back() += c;
        if (steps.size() < 4 || steps[0] != "perf_matrix" || steps[3] == "common") continue;
        const auto label = steps[1] + "," + steps[2].substr(steps[2].find_last_of('_') + 1) + "," + steps[3];
        if (std::ranges::find(known, label) == known.end()) known.push_back(label);
    }
    return known;
}

// One row of perf_matrix (GPU, GPUs, precision) in place of the table, under longer names: its common values, then those of the
// precision.
void take_rows(Document& d, const std::vector<std::string>& parts) {
    static const std::map<std::string, std::string> longer{{"mbs", "micro_batch_size"},
                                                           {"gbs", "global_batch_size"},
                                                           {"tp", "tensor_model_parallel_size"},
                                                           {"pp", "pipeline_model_parallel_size"},
                                                           {"cp", "context_parallel_size"},
                                                           {"vp", "virtual_pipeline_model_parallel_size"},
                                                           {"ep", "expert_model_parallel_size"},
                                                           {"etp", "expert_tensor_parallel_size"},
                                                           {"fsdp", "use_megatron_fsdp"}};
    const auto row = "perf_matrix." + parts[0] + ".num_gpus_" + parts[1] + ".";
    std::vector<NamedValue> chosen;
    for (const auto& value : d.values)
        if (!value.name.starts_with("perf_matrix.")) chosen.push_back(value);
    for (const auto& section : {row + "common.", row + parts[2] + "."})
        for (const auto& value : d.values) {
            if (!value.name.starts_with(section)) continue;
            auto name = value.name.substr(section.size());
            if (const auto found = longer.find(name); found != longer.end()) name = found->second;
            chosen.push_back({name, value.value, value.at, value.null});
        }
    d.values = std::move(chosen);
}

void choose_variant(Document& d, const std::string& variant, std::string& gpu, long& ranks) {
    std::vector<std::string> parts{""};
    for (const char c : variant)
        if (c == ',' || c == '/')
            parts.emplace_back();
        else if (c != ' ')
            parts.back() += c;
    const std::vector<std::string> known = variants_in(d);
    if (parts.size() != 3 || std::ranges::find(known, variant) == known.end())
        throw ConfigError(fmt::format("{}: a table of {} configurations; expected --variant and one of {}{}", d.path,
                                      known.size(), fmt::join(known, " "), did_you_mean(variant, known)));
    gpu = parts[0];
    if (parts[1].empty() || parts[1].size() > 9 || parts[1].find_first_not_of("0123456789") != std::string::npos)
        throw ConfigError(fmt::format("{}: --variant {}: {} is no number of GPUs", d.path, variant, parts[1]));
    ranks = std::stol(parts[1]);
    take_rows(d, parts);
    d.add("mixed_precision.name", parts[2].starts_with("fp8") ? "bf16_with_fp8_mixed" : parts[2] + "_mixed", d.path);
}

// A dump of a run's arguments, which states every default and the world.
Translation translate_dump(Document d) {
    const auto* world = d.find("world_size");
    Translation t = translate_megatron(d, MegatronDialect::lm, world ? integer_in(*world) : 0, true);
    if (world) t.open.push_back(fmt::format("the machine of its {} ranks: say it with --cluster and --gpus {}", world->value, world->value));
    return t;
}

// --yaml-cfg of Megatron-LM: the flags' destinations in tables.
Translation translate_yaml_arguments(Document d) {
    drop_sections(d, {"language_model.", "model_parallel.", "training."});
    return translate_megatron(d, MegatronDialect::lm, 0, true);
}

// "_target_: ...Llama3ModelProvider8B": what the class sets where the file does not. Of other classes it is Megatron's own defaults,
// and the report's list of defaults says so.
void add_class_of_model(Document& d) {
    const auto* target = d.find_any({"model._target_", "ConfigContainer.model._target_"});
    if (!target) return;
    const NamedValue of = *target;
    const auto name = of.value.substr(of.value.find_last_of('.') + 1);
    if (!name.starts_with("Llama") && !name.starts_with("Mistral") && !name.starts_with("Mixtral") && !name.starts_with("Qwen")) return;
    for (const auto& [key, value] : {std::pair{"gated_linear_unit", "true"}, {"normalization", "RMSNorm"}, {"position_embedding_type", "rope"},
                                     {"add_bias_linear", "false"}, {"share_embeddings_and_output_weights", "false"},
                                     {"hidden_dropout", "0"}, {"attention_dropout", "0"}})
        if (!d.states(std::string("model.") + key)) d.add(std::string("model.") + key, value, of.at);
    if (name.starts_with("Qwen2") && !d.states("model.add_qkv_bias")) d.add("model.add_qkv_bias", "true", of.at);
}

Translation translate_bridge(Document d, const TranslateOptions& options) {
    std::string gpu;
    long ranks = 0;
    const bool table =
        std::ranges::any_of(d.values, [](const NamedValue& v) { return v.name.starts_with("perf_matrix."); });
    if (table) choose_variant(d, options.variant, gpu, ranks);
    add_class_of_model(d);
    drop_bridge_sections(d);
    Translation t = translate_megatron(d, MegatronDialect::bridge, ranks);
    if (ranks > 0) {
        const auto* each = d.find("num_gpus_per_node");
        const long per_node = each ? count_in(*each) : 8;
        t.set("cluster.preset", gpu, d.path);
        t.set("cluster.nodes", std::max(1L, ranks / per_node), d.path);
        t.set("cluster.gpus_per_node", std::min(ranks, per_node), d.path);
        std::erase_if(t.ignored, [](const std::string& line) { return line == "num_gpus_per_node"; });
    }
    if (const auto* v = d.find("cpu_offloading_num_layers"); v && integer_in(*v) > 0)
        t.problems.push_back("cpu_offloading_num_layers (" + v->at +
                             "): memory of the host is not modelled; the forecast keeps all on the device");
    return t;
}

// What the file leaves to a recipe or to code.
void add_model(Translation& t, const std::string& model) {
    if (model.empty()) return;
    t.set("workload.preset", model, "--model");
    std::erase_if(t.open, [](const std::string& line) { return line.find("--model") != std::string::npos; });
}

// A description of a machine, if any.
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

// A configuration or a launch script, if any.
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

}  // namespace

ForeignFormat parse_foreign_format(std::string_view text, std::span<const std::string_view> others) {
    std::vector<std::string> valid(others.begin(), others.end());
    for (const auto& name : names) {
        if (name.name == text) return name.format;
        valid.emplace_back(name.name);
    }
    throw ConfigError(fmt::format("--format {}: expected auto, {}{}", text,
                                  fmt::join(valid, ", "), did_you_mean(text, valid)));
}

bool is_cluster(ForeignFormat format) {
    return format == ForeignFormat::topology_matrix || format == ForeignFormat::nccl_topology ||
           format == ForeignFormat::nccl_graph || format == ForeignFormat::nvidia_smi || format == ForeignFormat::lspci;
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
    const auto text = read_described(path);
    Translation t;
    switch (format) {
        case ForeignFormat::megatron:
            t = has(text, "MODEL_ARGS:")       ? translate_megatron_yaml(read_yaml(text, path))
                : is_argument_dump(text)       ? translate_dump(dumped_arguments(text, path))
                : is_yaml_configuration(text) ? translate_yaml_arguments(read_yaml(text, path))
                                               : translate_script(text, path, options);
            break;
        case ForeignFormat::nemo: t = translate_nemo(read_yaml(text, path)); break;
        case ForeignFormat::megatron_bridge: t = translate_bridge(read_yaml(text, path), options); break;
        case ForeignFormat::torchtitan: {
            Document d = read_toml_values(text, path);
            t = translate_torchtitan(d, options.model, options.replicas);
            break;
        }
        case ForeignFormat::deepspeed: {
            Document d = read_yaml(text, path);
            t = translate_deepspeed(d, options.replicas);
            break;
        }
        case ForeignFormat::hub_config:
            t.path = path;
            t.format = "config.json";
            t.ignored = read_hub_config(path).notes;  // and refuses now what the forecast would refuse
            t.set("workload.preset", std::filesystem::absolute(path).string(), path);
            t.open.push_back("split and machine: say them with --set, --cluster and --gpus");
            return t;
        default:
            throw ConfigError(path + ": is no launch script or configuration that is known; expected Megatron-LM "
                              "arguments, NeMo or Megatron-Bridge YAML, torchtitan TOML, DeepSpeed JSON or a config.json");
    }
    add_model(t, options.model);
    if (options.replicas > 0) std::erase_if(t.open, [](const std::string& line) { return line.starts_with("how many GPUs"); });
    return t;
}

}  // namespace stepcast
