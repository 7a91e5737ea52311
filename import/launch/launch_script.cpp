#include "import/launch/launch_script.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "import/launch/deepspeed.h"
#include "import/launch/document.h"
#include "import/launch/json_text.h"
#include "import/launch/launch_flags.h"
#include "import/launch/launch_lines.h"
#include "import/launch/megatron.h"
#include "import/launch/megatron_source.h"
#include "import/launch/megatron_yaml.h"
#include "import/launch/shell.h"
#include "import/launch/shell_launch.h"
#include "import/launch/shell_words.h"
#include "import/launch/tool_files.h"
#include "import/launch/trainer.h"
#include "import/launch/variables.h"
#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"
#include "model/machine/allocator_settings.h"

namespace stepcast {

bool is_configuration(const std::string& name) {
    return is_yaml_name(name) || name.ends_with(".json");
}

// A file that a launch names: as it stands, beside the script, or in a folder above it, as names
// begin at the root of a repository.
std::string found_file(const std::string& name, const std::string& script) {
    namespace fs = std::filesystem;
    std::error_code none;
    constexpr int levels = 4;
    auto folder = fs::absolute(script, none).lexically_normal();
    if (fs::is_regular_file(name, none)) return name;
    for (int level = 0; level < levels && fs::path(name).is_relative(); ++level) {
        folder = folder.parent_path();
        const auto file = (level == 0 ? fs::path(script).parent_path() : folder) / name;
        if (fs::is_regular_file(file, none)) return file.lexically_normal().string();
    }
    return "";
}

namespace {

// DeepSpeed's JSON that a script writes for its own launch, or that the launch names.
std::vector<Document> deepspeed_documents(Document& d, const ShellLaunch& launch) {
    std::vector<Document> found;
    if (!d.states("deepspeed") && !d.states("deepspeed_config")) return found;
    for (const auto& [text, at] : launch.documents) {  // positions are those of the script
        const auto colon = at.rfind(':');
        const auto before = as_index(std::max(0L, std::atol(at.c_str() + colon + 1) - 1));
        found.push_back(read_yaml(std::string(before, '\n') + text, at.substr(0, colon)));
    }
    const auto* file = d.find("deepspeed_config");
    if (!found.empty() || !file) return found;
    if (const auto path = found_file(file->value, d.path); !path.empty())
        found.push_back(read_yaml(plain_utf8(read_text(path, "DeepSpeed's configuration")), path));
    return found;
}

// Adds precision, stage and batch of such JSON where no flag states them.
void add_deepspeed(Document& d, const std::vector<Document>& documents) {
    for (const Document& json : documents)
        for (const auto& [theirs, flag] : {std::pair{"bf16.enabled", "bf16"},
                                           {"fp16.enabled", "fp16"},
                                           {"zero_optimization.stage", "zero_stage"},
                                           {"train_batch_size", "global_batch_size"},
                                           {"train_micro_batch_size_per_gpu", "micro_batch_size"}})
            for (const NamedValue& value : json.values)
                if (value.name == theirs && !value.value.empty() && value.value != "auto" &&
                    !d.states(flag))
                    d.add(flag, value.value, value.at);
}

bool is_default(const Setting& setting) { return setting.at.starts_with("default of "); }

// Takes everything else of it. Where a flag says something else, DeepSpeed's engine goes by its
// configuration for the stage and stops for the batch; the optimizer is the one that Megatron hands
// over.
void take_documents(const std::vector<Document>& documents, Translation& t) {
    for (const Document& json : documents) {
        const Translation said = translate_deepspeed(json, 0);
        for (const Setting& setting : said.settings) {
            if (is_default(setting) || setting.key == "workload.optimizer") continue;
            const auto* own = t.find(setting.key);
            if (own && !is_default(*own)) {
                if (own->value != setting.value)
                    add_line(t.problems,
                             "{} is {} by a flag ({}) and {} by DeepSpeed's configuration "
                             "({}); the forecast has the {}",
                             setting.key, own->value, own->at, setting.value, setting.at,
                             setting.key == "parallelism.zero" ? "latter" : "former");
                if (setting.key != "parallelism.zero") continue;
            }
            t.set(setting.key, setting.value, setting.at);
        }
        append(t.problems, said.problems);
        for (const std::string& name : said.ignored)
            add_line(t.ignored, "{} ({})", name, json.path);
    }
}

// An error may come from a variable that the script leaves to its caller, so the message names such
// variables.
template <typename Translate>
Translation naming_unknown(const ShellLaunch& launch, Translate translate) {
    try {
        return translate();
    } catch (const ConfigError& error) {
        if (launch.unknown.empty()) throw;
        refuse("{}; not set in the script: {}; set it with --env", error.what(),
               joined(launch.unknown, ", "));
    }
}

// Megatron-LM has one program per kind of model, with mostly the same flags. A `model` given by the
// caller takes precedence.
void take_program(const ShellLaunch& launch, const std::string& model, Translation& t) {
    const auto program = first_where(
        launch.arguments, [](const ShellArgument& a) { return a.text.ends_with(".py"); });
    if (!program || !model.empty()) return;
    const auto name = std::filesystem::path(program->text).filename().string();
    auto words = "_" + name.substr(0, name.size() - 3) + "_";
    std::ranges::replace(words, '-', '_');
    if (has(words, "_bert_")) t.set("workload.causal", "false", program->at);
    for (const auto& [word, what] : {std::pair{"_t5_", "an encoder with a decoder"},
                                     {"_retro_", "layers that attend to retrieved text"},
                                     {"_vlm_", "a vision tower before the layers"},
                                     {"_mamba_", "layers of Mamba among those of attention"}})
        if (has(words, word))
            refuse(
                "{}: found {}, which trains {}; expected pretrain_gpt.py or "
                "pretrain_bert.py, or a preset of its model "
                "with --model",
                program->at, name, what);
}

bool is_number(const NamedValue* v) {
    return v && !v->value.empty() && v->value.find_first_not_of("0123456789") == std::string::npos;
}

// GPUs of the launch: of each node, all of them, and where that stands. 0 = not said.
struct LaunchedRanks {
    long per_node = 0, ranks = 0;
    std::string at = {};
    void take(Translation& t) const {
        if (ranks == 0) return;
        t.set("cluster.nodes", ranks / per_node, at);
        t.set("cluster.gpus_per_node", per_node, at);
    }
};

LaunchedRanks machine_of(Document& d) {
    const auto* each = d.find_any({"nproc_per_node", "ntasks_per_node", "sbatch_ntasks_per_node",
                                   "gpus_per_node", "num_gpus"});
    const auto* count = d.find_any({"nnodes", "nodes", "sbatch_nodes", "num_nodes"});
    // torchrun runs on one node by default. Slurm's tasks per node apply to as many nodes as the
    // submitter requests.
    const bool of_slurm = each && has(each->name, "ntasks_per_node");
    if (!is_number(each) || !(is_number(count) || (!count && !of_slurm))) return {};
    return {count_in(*each), count_in(*each) * (count ? count_in(*count) : 1), each->at};
}

// srun's own options, which count above the script's directives: "srun -N 2 -n 8 python train.py".
void take_srun_options(const ShellLaunch& launch, Document& d) {
    const auto& all = launch.arguments;
    const auto is = [](const char* name) {
        return [name](const ShellArgument& a) {
            return std::filesystem::path(a.text).filename() == name;
        };
    };
    const auto srun = std::ranges::find_if(all, is("srun"));
    if (srun == all.end()) return;
    std::string options = "#SBATCH";
    for (auto word = srun + 1; word != all.end(); ++word) {
        const bool begins = word->text.ends_with(".py") || is("python")(*word) ||
                            is("python3")(*word) || is("torchrun")(*word) ||
                            is("accelerate")(*word);
        if (begins) break;
        options += " " + word->text;
    }
    for (const auto& [name, value] : slurm_directives(options)) {
        auto key = name;
        std::ranges::replace(key, '-', '_');
        if ((key == "nodes" || key == "ntasks_per_node") && !d.states(key))
            d.add(key, value, srun->at);
    }
}

Document arguments_of(const ShellLaunch& launch, const std::string& path) {
    Document d = megatron_arguments(launch.arguments, path);
    take_srun_options(launch, d);
    for (const auto& [name, value] : launch.directives) {
        auto key = "sbatch_" + name;
        std::ranges::replace(key, '-', '_');
        d.values.insert(d.values.begin(), {key, value, path});
    }
    return d;
}

std::string program_of(const ShellLaunch& launch) {
    for (const auto& argument : launch.arguments)
        if (argument.text.ends_with(".py"))
            return std::filesystem::path(argument.text).stem().string();
    return "";
}

bool names(const ShellLaunch& launch, std::string_view word) {
    return std::ranges::any_of(launch.arguments, [&](const ShellArgument& a) {
        return a.text == word || std::filesystem::path(a.text).filename() == word;
    });
}

// A size, a degree or a batch of Megatron-LM, an override of Megatron-Bridge's recipe, or sizes
// that stand in a checkpoint. Other tools' lines have a --batch-size, and overrides, too.
bool concerns_megatron(const Document& d) {
    static constexpr std::array<std::string_view, 11> names{
        "num_layers",          "encoder_num_layers",         "hidden_size",
        "seq_length",          "micro_batch_size",           "global_batch_size",
        "use_checkpoint_args", "tensor_model_parallel_size", "pipeline_model_parallel_size",
        "model_parallel_size", "context_parallel_size"};
    Document plain = d;
    drop_bridge_sections(plain);
    return std::ranges::any_of(plain.values, [&](const NamedValue& v) {
        if (contains(names, v.name)) return true;
        const bool of_section = d.values[as_index(&v - plain.values.data())].name != v.name;
        return of_section && launch_flags().knows(v.name);
    });
}

// A tool whose launches have all in a file that is not there; flags of another tool's reader would
// be taken for its own.
void require_file(const ShellLaunch& launch, const std::string& path) {
    const Tool* tool = tool_started(launch.arguments);
    if (!tool || is_of_trainer(*tool)) return;
    std::vector<std::string> words;
    for (const ShellArgument& a : launch.arguments) words.push_back(a.text);
    throw ConfigError(fmt::format(
        "{}: found a launch of {} (\"{}\") and none of its files beside {}; expected the YAML that "
        "it reads there, by that name, or that file itself",
        launch.arguments.front().at, tool->name, joined(words, " ").substr(0, 80), path));
}

// Programs of other tools, whose flags only look alike.
void require_own_program(const ShellLaunch& launch) {
    if (const Tool* tool = tool_started(launch.arguments))
        require_read(*tool, launch.arguments.front().at);
}

// What a launch of Megatron-Bridge leaves to its recipe, with the program's flags of one dash ("-m
// llama3"), which are not read.
void name_recipe(const ShellLaunch& launch, Translation& t) {
    const auto program = std::ranges::find_if(
        launch.arguments, [](const ShellArgument& a) { return a.text.ends_with(".py"); });
    std::string flags;
    for (auto word = program; word != launch.arguments.end(); ++word)
        if (word->text.size() > 1 && word->text[0] == '-' && is_letter(word->text[1]))
            flags += " " + word->text +
                     (word + 1 != launch.arguments.end() ? " " + (word + 1)->text : "");
    t.open.push_back(fmt::format(
        "what the recipe sets beside the overrides (parallel layout, batch, precision): taken from "
        "Megatron-Bridge's defaults{}{}",
        flags.empty() ? "" : "; not read:", flags));
}

// Flags of Megatron-LM and Megatron-DeepSpeed, or overrides of Megatron-Bridge's recipe.
Translation translate_flags(const ShellLaunch& launch, Document d) {
    const auto documents = deepspeed_documents(d, launch);
    add_deepspeed(d, documents);
    const LaunchedRanks machine = machine_of(d);
    const bool dotted =
        std::ranges::any_of(d.values, [](const NamedValue& v) { return has(v.name, '.'); });
    if (dotted) drop_bridge_sections(d);
    Translation t = translate_megatron(d, dotted ? MegatronDialect::bridge : MegatronDialect::lm,
                                       machine.ranks);
    if (dotted) name_recipe(launch, t);
    take_documents(documents, t);
    if (const auto* file = d.find("deepspeed_config"); file && documents.empty())
        t.lacks_file(
            fmt::format("deepspeed_config ({}): {} is not there: stage, buckets and overlap of it "
                        "are not known",
                        file->at, file->value));
    machine.take(t);
    return t;
}

// "key=value" and "--key value" above the values of the file: the last of a name counts.
void put_above(const ShellLaunch& launch, const Document& flags, Document& d) {
    append(d.values, flags.values);
    for (const auto& [text, at] : launch.arguments) {
        const auto equals = text.find('=');
        const bool name = equals != std::string::npos && equals > 0 && text[0] != '-' &&
                          text.find_first_of("/.") > equals;
        if (name) d.add(text.substr(0, equals), text.substr(equals + 1), at);
    }
}

// A launch whose file is of a tool that is data (config_files.toml): composer train.py run.yaml,
// run_train.py --config-file run.yaml. "" = no such file.
std::string tool_file_of(const ShellLaunch& launch, const std::string& path) {
    for (const ShellArgument& argument : launch.arguments) {
        const std::string name = argument.text.substr(argument.text.find('=') + 1);
        const auto file = is_yaml_name(name) ? found_file(name, path) : "";
        if (file.empty()) continue;
        try {
            const Tool* tool =
                tool_of(read_yaml(plain_utf8(read_text(file, "a configuration")), file));
            if (tool && !is_of_trainer(*tool)) return file;
        } catch (const ConfigError&) {  // the program's own, in whatever notation
        }
    }
    return "";
}

Translation translate_tool_launch(const ShellLaunch& launch, const std::string& file,
                                  const Document& flags, const LaunchedRanks& machine,
                                  const TranslateOptions& options) {
    Document d = read_yaml(plain_utf8(read_text(file, "a configuration")), file);
    const Tool& tool = *tool_of(d);
    put_above(launch, flags, d);
    fill_variables(d, options.environment);
    Translation t = translate_tool(tool, d, options.replicas);
    if (const long split = t.ranks_of_split();
        machine.ranks > 0 && options.replicas == 0 && machine.ranks % split == 0)
        t = translate_tool(tool, d, machine.ranks / split);
    t.path = flags.path;
    if (machine.ranks == 0) return t;
    machine.take(t);
    if (!t.find("parallelism.dp"))
        t.set("parallelism.dp", machine.ranks / std::max(1L, t.ranks_of_split()), machine.at);
    std::erase_if(t.open,
                  [](const std::string& line) { return line.starts_with("how many GPUs"); });
    return t;
}

// Settings that are refused, or not modelled, must not cost the rest of the script.
void take_allocator(const ShellLaunch& launch, const std::string& path, Translation& t) {
    for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
        const auto found = value_in(launch.environment, name);
        if (!found) continue;
        try {
            (void)parse_allocator_settings(*found);
            t.set("run.allocator", *found, path + ", " + name);
        } catch (const ConfigError& e) {
            add_line(t.problems, "{} ({}): {}", name, path, e.what());
        }
    }
}

}  // namespace

Translation translate_script(const std::string& text, const std::string& path,
                             const TranslateOptions& options) {
    const auto launch = read_launch(text, path, options.environment);
    Translation t = naming_unknown(launch, [&] {
        require_own_program(launch);
        Document d = arguments_of(launch, path);
        if (is_titan_launch(launch))
            return translate_titan_launch(launch, machine_of(d).per_node, machine_of(d).ranks, path,
                                          options);
        if (is_nemo_launch(program_of(launch), d))
            return translate_nemo_launch(program_of(launch), std::move(d), path);
        if (names(launch, "nemo")) return translate_nemo_recipe(std::move(d));
        if (is_trainer_launch(launch, path)) return translate_trainer_launch(launch, path, options);
        if (const auto file = tool_file_of(launch, path); !file.empty())
            return translate_tool_launch(launch, file, d, machine_of(d), options);
        require_file(launch, path);
        if (!concerns_megatron(d))
            refuse(
                "{}: {} is launched with no flag of Megatron-LM or its relatives (as --num-layers, "
                "--micro-batch-size, --tensor-model-parallel-size); expected such a launch, or "
                "name the model's config.json and set the parallel layout with --set",
                launch.arguments.front().at,
                program_of(launch).empty() ? "what it runs" : program_of(launch) + ".py");
        return translate_flags(launch, std::move(d));
    });
    take_program(launch, options.model, t);
    take_allocator(launch, path, t);
    for (const auto& variable : launch.unknown)
        t.open.push_back("variable " + variable + " is not set; set it with --env");
    for (const auto& note : launch.notes) t.open.push_back(note);
    append(t.missing_files, launch.missing_files);
    return t;
}

// "MODEL_ARGS:" with "--flag: value", or "ARGS:" with "flag: value"; beside them what the run is
// started with.
bool is_argument_block(const std::string& text) {
    const auto begins = [&](std::string_view head) {
        return text.starts_with(head) || has(text, "\n" + std::string(head));
    };
    return begins("MODEL_ARGS:") ||
           (begins("ARGS:") && has_any(text, {"num_layers", "num-layers", "_parallel_size",
                                              "-parallel-size", "batch_size", "batch-size"}));
}

Translation translate_argument_block(Document d) {
    drop_sections(d, {"MODEL_ARGS.", "ARGS."});
    for (auto& value : d.values) {
        if (value.name.starts_with("--")) value.name.erase(0, 2);
        if (!has(value.name, '.')) std::ranges::replace(value.name, '-', '_');
    }
    return translate_megatron(d, MegatronDialect::lm, 0);
}

}  // namespace stepcast
