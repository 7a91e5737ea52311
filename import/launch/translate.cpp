#include "import/launch/translate.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "import/launch/deepspeed.h"
#include "import/launch/document.h"
#include "import/launch/gpt_neox.h"
#include "import/launch/json_text.h"
#include "import/launch/launch_script.h"
#include "import/launch/megatron.h"
#include "import/launch/megatron_source.h"
#include "import/launch/megatron_yaml.h"
#include "import/launch/primus.h"
#include "import/launch/refused_experiments.h"
#include "import/launch/tool_files.h"
#include "import/launch/torchtitan.h"
#include "import/launch/trainer.h"
#include "import/launch/unknown.h"
#include "import/launch/variables.h"
#include "import/machine/smi_listings.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"
#include "model/input/hub_config.h"
#include "model/input/presets.h"

namespace stepcast {
namespace {

// ---- what a file of another tool is, by what it holds

constexpr std::size_t largest = 16 << 20;  // larger files are logs or traces

bool is_large(const std::string& path) {
    std::error_code none;
    const auto size = std::filesystem::file_size(path, none);
    return !none && size > largest;
}

// Of a long log what its run says at its begin.
std::string read_described(const std::string& path) {
    if (is_large(path))
        if (const auto dump = dump_in_log(path); !dump.empty()) return plain_utf8(dump);
    return plain_utf8(
        read_text(path, "a script, a configuration or a description of a machine", largest));
}

// Logs of a training often begin with such a listing, and are none.
ForeignFormat recognise_listing(const std::string& text) {
    constexpr std::array<std::string_view, 6> of_logs{"loss",    "iteration",  "it/s",
                                                      "elapsed", "throughput", "busbw"};
    if (has_any(text, of_logs)) return ForeignFormat::none;
    if (has_any(text, {"NVSMI LOG", "| NVIDIA-SMI ", " (UUID: GPU-"}))
        return ForeignFormat::nvidia_smi;
    return other_listing(text).empty() ? ForeignFormat::none : ForeignFormat::other_listing;
}

// The format of a machine description, or none.
ForeignFormat recognise_machine(const std::string& text, bool markup) {
    if (markup) {
        if (has(text, "<nvidia_smi_log")) return ForeignFormat::nvidia_smi;
        if (has(text, "<graphs")) return ForeignFormat::nccl_graph;
        return has(text, "<system") ? ForeignFormat::nccl_topology : ForeignFormat::none;
    }
    if (has_any(text, {"Link Type between two GPUs", "LINK TYPE TABLE"}))
        return ForeignFormat::rocm_smi;
    if (has(text, "GPU0") && has_any(text, {" X ", "\tX"}) &&
        has_any(text, {"CPU Affinity", "SYS", "NV", "PIX"}))
        return ForeignFormat::topology_matrix;
    if (has_any(text, {"3D controller", "VGA compatible controller", "Processing accelerators"}) &&
        has_any(text, {"NVIDIA", "Advanced Micro Devices"}) && has_any(text, {"bridge", ".0 "}))
        return ForeignFormat::lspci;
    return recognise_listing(text);
}

// The format of Megatron-LM's --yaml-cfg: the flags' destinations in tables.
bool is_yaml_configuration(const std::string& text) {
    return has_all(text, {"language_model:", "model_parallel:", "num_layers:"});
}

// The format of YAML or JSON by the names in it, or none. Some tools' files hold words of others',
// so names count before words.
ForeignFormat recognise_names(const std::string& text, const std::string& path) {
    constexpr std::size_t most = 1 << 20;  // a configuration is shorter
    if (text.size() > most || text.starts_with("#!") || path.ends_with(".toml"))
        return ForeignFormat::none;
    try {
        Document d = read_json_or_yaml(text, path);
        // a model's config.json states these, and so do files of axolotl
        const bool of_model = d.states("model_type") || d.states("architectures");
        if (!of_model && is_gpt_neox(d)) return ForeignFormat::gpt_neox;
        if (is_primus(d)) return ForeignFormat::primus;
        if (tool_of(d)) return ForeignFormat::config_file;
    } catch (const ConfigError&) {
        return ForeignFormat::none;
    }
    return ForeignFormat::none;
}

// Levanter's and others' files have a trainer and a model, too, but none of these.
constexpr std::array<std::string_view, 8> names_of_nemo{
    "micro_batch_size", "global_batch_size",   "num_nodes",          "devices",
    "exp_manager",      "num_attention_heads", "encoder_seq_length", "model_parallel_size"};

// A launch by its flags, or a script: those may stand in another that it starts.
bool is_launch(const std::string& text, const std::string& path) {
    if (has_any(text, {"--num-layers", "--tensor-model-parallel-size", "--micro-batch-size",
                       "model.tensor_model_parallel_size=", "--job.config", "torchtitan.train",
                       "--per_device_train_batch_size", "accelerate launch"}) &&
        has_any(text, {"torchrun", "python", "accelerate launch"}))
        return true;
    const auto first = text.substr(0, text.find('\n'));
    return (first.starts_with("#!") && has(first, "sh")) || path.ends_with(".sh") ||
           path.ends_with(".sbatch") || path.ends_with(".slurm");
}

// The format of a configuration or launch script, or none.
ForeignFormat recognise_training(const std::string& text, const std::string& path) {
    if (is_argument_block(text) || is_argument_dump(text) || is_yaml_configuration(text))
        return ForeignFormat::megatron;
    if ((has(text, "[parallelism]") && has_any(text, {"_parallel_degree", "flavor"})) ||
        has_all(text, {"flavor", "[model]"}))
        return ForeignFormat::torchtitan;
    if (has_any(text, {"perf_matrix:", "ConfigContainer:"})) return ForeignFormat::megatron_bridge;
    if (has_all(text, {"trainer:", "model:"}) && has_any(text, names_of_nemo))
        return ForeignFormat::nemo;
    if (is_yaml_name(path) && has(text, "model:") && has_any(text, {"train:", "ddp:"}))
        return ForeignFormat::megatron_bridge;
    return is_launch(text, path) ? ForeignFormat::megatron : ForeignFormat::none;
}

ForeignFormat recognise_json(const std::string& text) {
    if (has_any(text, {"\"model_type\"", "\"architectures\""})) return ForeignFormat::hub_config;
    return has_any(text,
                   {"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization"})
               ? ForeignFormat::deepspeed
               : ForeignFormat::none;
}

// ---- what it says

// The dump of a run's arguments, which states every default and the world size.
Translation translate_dump(Document d) {
    const auto* world = d.find("world_size");
    Translation t =
        translate_megatron(d, MegatronDialect::lm, world ? integer_in(*world) : 0, true);
    if (world)
        add_line(t.open, "the machine of its {} ranks: set it with --cluster and --gpus {}",
                 world->value, world->value);
    return t;
}

// Megatron-LM's --yaml-cfg, with the flags' destinations in tables.
Translation translate_yaml_arguments(Document d) {
    drop_sections(d, {"language_model.", "model_parallel.", "training."});
    return translate_megatron(d, MegatronDialect::lm, 0, true);
}

Document filled_document(const std::string& text, const std::string& path,
                         const TranslateOptions& options) {
    Document d = read_json_or_yaml(text, path);
    fill_variables(d, options.environment);
    return d;
}

// Megatron-LM's arguments in whichever form.
Translation translate_arguments(const std::string& text, const std::string& path,
                                const TranslateOptions& options) {
    if (is_argument_block(text))
        return translate_argument_block(filled_document(text, path, options));
    if (is_argument_dump(text)) return translate_dump(dumped_arguments(text, path));
    if (is_yaml_configuration(text))
        return translate_yaml_arguments(filled_document(text, path, options));
    return translate_script(text, path, options);
}

Translation translate_config_file(Document d, const TranslateOptions& options) {
    const Tool* tool = tool_of(d);
    if (!tool)
        throw ConfigError(d.path +
                          ": has the keys of none of the tools of model/presets/config_files.toml");
    return is_of_trainer(*tool) ? translate_trainer(*tool, std::move(d), options)
                                : translate_tool(*tool, std::move(d), options.replicas);
}

// A model that is a file stands in the working folder, as every path of the command line, or beside
// the file that is read.
std::string model_file(const std::string& model, const std::string& path) {
    if (model.empty() || has_preset(PresetKind::workload, model)) return model;
    if (!model.ends_with(".json") && !model.ends_with(".toml") && !has(model, '/')) return model;
    std::error_code missing;
    for (const auto& place :
         {std::filesystem::path(model), std::filesystem::path(path).parent_path() / model})
        if (std::filesystem::is_regular_file(place, missing))
            return std::filesystem::absolute(place).lexically_normal().string();
    throw ConfigError("--model " + model + ": no such file in the working folder nor beside " +
                      path);
}

// Sets the model that the file leaves to a recipe or to code.
void add_model(Translation& t, const std::string& model) {
    if (model.empty()) return;
    t.set("workload.preset", model, "--model");
    std::erase_if(t.open, [](const std::string& line) { return has(line, "--model"); });
}

// Only the model of a text part that the file names without sizes can come from elsewhere.
Translation translate_hub_config(const std::string& path, const std::string& model) {
    Translation t{
        .path = path,
        .format = "config.json",
        .open = {"parallel layout and machine: set them with --set, --cluster and --gpus"}};
    if (model.empty()) {
        t.settings = {{"workload.preset", std::filesystem::absolute(path).string(), path}};
        // reading it here reports now what the forecast would refuse
        t.ignored = read_hub_config(path).notes;
        Experiment named;
        set_key(named, {"workload.preset", std::filesystem::absolute(path).string()});
        if (named.workload.seq == 0)
            t.open.emplace_back(
                "seq: the file has the longest context, not the length that is trained; set it "
                "with --set seq=N");
        return t;
    }
    const auto named = text_part_without_sizes(path);
    if (!named)
        throw ConfigError("--model: " + path +
                          " states the sizes of its model; expected the file without --model, or "
                          "the model without the file");
    add_model(t, model);
    if (named->vocab > 0) t.set("workload.vocab", std::to_string(named->vocab), path);
    t.ignored = {"what the model sees or hears: the forecast is of its text part, " +
                 (named->name.empty() ? "which the file does not name" : named->name)};
    return t;
}

}  // namespace

ForeignFormat parse_foreign_format(std::string_view text,
                                   std::span<const std::string_view> others) {
    std::vector<std::string_view> valid{"auto"};
    append(valid, others);
    append(valid, name_list<ForeignFormat>);
    return parse_name<ForeignFormat>(valid[index_of_name(text, "a format of --format", valid)]);
}

bool is_cluster(ForeignFormat format) {
    return format >= ForeignFormat::topology_matrix && format <= ForeignFormat::lspci;
}

ForeignFormat recognise_foreign(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (!is_standard_input(path) && !fs::is_regular_file(path, error)) return ForeignFormat::none;
    if (is_large(path))
        return is_argument_dump(dump_in_log(path)) ? ForeignFormat::megatron : ForeignFormat::none;
    std::string text;
    try {
        text = read_described(path);
    } catch (const ConfigError&) {
        return ForeignFormat::none;
    }
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return ForeignFormat::none;
    const bool markup = text[first] == '<';
    if (const auto machine = recognise_machine(text, markup);
        markup || machine != ForeignFormat::none)
        return machine;
    // Traces, whose metadata may hold anything.
    if (has(text, "\"traceEvents\"") || (text[first] == '[' && has(text, "\"ph\"")))
        return ForeignFormat::none;
    if (const auto named = recognise_names(text, path); named != ForeignFormat::none) return named;
    return is_json(text) ? recognise_json(text) : recognise_training(text, path);
}

namespace {

// A reader that takes nothing has the wrong file before it.
void require_something(const Translation& t) {
    const bool some = std::ranges::any_of(t.settings, [](const Setting& s) {
        return !s.at.starts_with("default of ") && s.at != "--model";
    });
    const auto& reasons = t.missing_files.empty() ? t.problems : t.missing_files;
    if (!some && !reasons.empty())
        refuse("{}: read as {}, of which it states nothing: {}", t.path, t.format, reasons.front());
    if (!some)
        refuse(
            "{}: read as {}, of which it states nothing. Another tool's file? --format "
            "names its reader",
            t.path, t.format);
}

}  // namespace

Translation translate(const std::string& path, const TranslateOptions& asked) {
    TranslateOptions options = asked;
    options.model = model_file(asked.model, path);
    const auto format =
        options.format == ForeignFormat::none ? recognise_foreign(path) : options.format;
    Translation t = translate_text(read_described(path), path, format, options);
    name_what_is_refused(t);
    return t;
}

Translation translate_text(const std::string& text, const std::string& path, ForeignFormat format,
                           const TranslateOptions& options) {
    Translation t;
    const auto filled = [&] { return filled_document(text, path, options); };
    switch (format) {
        case ForeignFormat::megatron: t = translate_arguments(text, path, options); break;
        case ForeignFormat::nemo: t = translate_nemo(filled()); break;
        case ForeignFormat::megatron_bridge: t = translate_bridge(filled(), options.variant); break;
        case ForeignFormat::torchtitan:
            t = translate_torchtitan(read_toml_values(text, path), options.model, options.replicas);
            break;
        case ForeignFormat::deepspeed: t = translate_deepspeed(filled(), options.replicas); break;
        case ForeignFormat::gpt_neox: t = translate_gpt_neox(filled(), options.replicas); break;
        case ForeignFormat::primus: t = translate_primus(filled()); break;
        case ForeignFormat::config_file: t = translate_config_file(filled(), options); break;
        case ForeignFormat::hub_config: return translate_hub_config(path, options.model);
        default:
            if (const auto what = unknown_configuration(path); !what.empty())
                throw ConfigError(what);
            throw ConfigError(
                path +
                ": is no launch script or configuration that is known; expected Megatron-LM "
                "arguments, NeMo or Megatron-Bridge YAML, torchtitan TOML, DeepSpeed JSON or a "
                "config.json");
    }
    require_something(t);
    add_model(t, options.model);
    if (options.replicas > 0)
        std::erase_if(t.open,
                      [](const std::string& line) { return line.starts_with("how many GPUs"); });
    return t;
}

}  // namespace stepcast
