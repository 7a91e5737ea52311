// What a file of another tool is, by what it holds.
#include <filesystem>

#include "model/errors.h"
#include "model/files/whole_files.h"
#include "translate/readers.h"
#include "translate/translate.h"

namespace stepcast {
namespace {

constexpr std::size_t largest = 16 << 20;  // a description; larger files are logs or traces

bool has(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

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

bool is_yaml_configuration(const std::string& text) {
    return has(text, "language_model:") && has(text, "model_parallel:") && has(text, "num_layers:");
}

std::string read_described(const std::string& path) {
    return plain_utf8(read_text(path, "a script, a configuration or a description of a machine", largest));
}

ForeignFormat parse_foreign_format(std::string_view text, std::span<const std::string_view> others) {
    std::vector<std::string_view> valid{"auto"};
    valid.insert(valid.end(), others.begin(), others.end());
    valid.insert(valid.end(), name_list<ForeignFormat>.begin(), name_list<ForeignFormat>.end());
    return parse_name<ForeignFormat>(valid[index_of_name(text, "a format of --format", valid)]);
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

}  // namespace stepcast
