#include "translate/translate.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/families/families.h"
#include "model/files/whole_files.h"
#include "model/presets.h"
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
    if (is_argument_block(text)) return ForeignFormat::megatron;
    if (is_argument_dump(text) || is_yaml_configuration(text)) return ForeignFormat::megatron;
    if (has(text, "[parallelism]") && (has(text, "_parallel_degree") || has(text, "flavor"))) return ForeignFormat::torchtitan;
    if (has(text, "flavor") && has(text, "[model]")) return ForeignFormat::torchtitan;
    if (has(text, "perf_matrix:") || has(text, "ConfigContainer:")) return ForeignFormat::megatron_bridge;
    const bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
    if (has(text, "trainer:") && has(text, "model:")) return ForeignFormat::nemo;
    if (yaml && has(text, "model:") && (has(text, "train:") || has(text, "ddp:"))) return ForeignFormat::megatron_bridge;
    const auto first = text.substr(0, text.find('\n'));
    const bool script = (first.starts_with("#!") && has(first, "sh")) || path.ends_with(".sh") || path.ends_with(".sbatch") || path.ends_with(".slurm");
    if (script) return ForeignFormat::megatron;  // also one whose flags stand in another that it starts
    if (has(text, "--num-layers") || has(text, "--tensor-model-parallel-size") || has(text, "--micro-batch-size") ||
        has(text, "model.tensor_model_parallel_size=") || has(text, "--job.config"))
        return has(text, "torchrun") || has(text, "python") ? ForeignFormat::megatron : ForeignFormat::none;
    return ForeignFormat::none;
}

// ---- what it says

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

// --model as a name of a preset, or a file in the working folder or else beside the file that is read.
std::string model_asked(const std::string& model, const std::string& path) {
    namespace fs = std::filesystem;
    if (model.empty() || has_preset(PresetKind::workload, model)) return model;
    std::error_code none;
    for (const fs::path& file : {fs::path(model), fs::path(path).parent_path() / model})
        if (fs::is_regular_file(file, none)) return fs::absolute(file, none).lexically_normal().string();
    return model;
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

Translation translate(const std::string& path, const TranslateOptions& asked) {
    TranslateOptions options = asked;
    options.model = model_asked(asked.model, path);
    const auto format = options.format == ForeignFormat::none ? recognise_foreign(path) : options.format;
    const auto text = read_described(path);
    Translation t;
    switch (format) {
        case ForeignFormat::megatron:
            t = is_argument_block(text)        ? translate_argument_block(read_yaml(text, path))
                : is_argument_dump(text)       ? translate_dump(dumped_arguments(text, path))
                : is_yaml_configuration(text) ? translate_yaml_arguments(read_yaml(text, path))
                                               : translate_script(text, path, options);
            break;
        case ForeignFormat::nemo: t = translate_nemo(read_yaml(text, path)); break;
        case ForeignFormat::megatron_bridge: t = translate_bridge(read_yaml(text, path), options.variant); break;
        case ForeignFormat::torchtitan: t = translate_torchtitan(read_toml_values(text, path), options.model, options.replicas); break;
        case ForeignFormat::deepspeed: t = translate_deepspeed(read_yaml(text, path), options.replicas); break;
        case ForeignFormat::hub_config:
            return {.path = path,
                    .format = "config.json",
                    .settings = {{"workload.preset", std::filesystem::absolute(path).string(), path}},
                    .ignored = read_hub_config(path).notes,  // reading it here reports now what the forecast would refuse
                    .open = {"split and machine: say them with --set, --cluster and --gpus"}};
        default:
            throw ConfigError(path + ": is no launch script or configuration that is known; expected Megatron-LM "
                              "arguments, NeMo or Megatron-Bridge YAML, torchtitan TOML, DeepSpeed JSON or a config.json");
    }
    add_model(t, options.model);
    if (options.replicas > 0) std::erase_if(t.open, [](const std::string& line) { return line.starts_with("how many GPUs"); });
    return t;
}

}  // namespace stepcast
