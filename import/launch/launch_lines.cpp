#include "import/launch/launch_lines.h"

#include <algorithm>
#include <filesystem>

#include "import/launch/launch_script.h"
#include "import/launch/megatron.h"
#include "import/launch/megatron_source.h"
#include "import/launch/megatron_yaml.h"
#include "import/launch/shell_launch.h"
#include "import/launch/torchtitan.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"

namespace stepcast {
namespace {

// A table of nemo_programs.toml or nemo_recipes.toml.
struct Configuration {
    std::string name, model;
    std::vector<std::string> programs, values;
};

std::vector<Configuration> configurations(const std::string& path) {
    std::vector<Configuration> all;
    for (const TomlEntry& entry : read_toml(path).entries) {
        const auto dot = entry.path.find('.');
        if (all.empty() || all.back().name != entry.path.substr(0, dot))
            all.push_back({entry.path.substr(0, dot), "", {}, {}});
        const auto key = entry.path.substr(dot + 1);
        if (const auto* text = std::get_if<std::string>(&entry.value.value))
            all.back().model = *text;
        if (const auto* list = std::get_if<std::vector<ConfigValue>>(&entry.value.value))
            for (const ConfigValue& element : *list)
                (key == "programs" ? all.back().programs : all.back().values)
                    .push_back(std::get<std::string>(element.value));
    }
    return all;
}

// The configuration's values, then the overrides: the last of a name counts. An override "~name"
// removes.
Document under_overrides(const Configuration& configuration, Document overrides,
                         const std::string& at) {
    Document d{overrides.path, {}};
    for (const std::string& value : configuration.values) {
        const auto equals = value.find('=');
        d.add(value.substr(0, equals), value.substr(equals + 1), at);
    }
    for (NamedValue& value : overrides.values) {
        if (lower_case(value.value) == "null" || lower_case(value.value) == "none")
            value.null = true;
        d.values.push_back(std::move(value));
    }
    return d;
}

// Settings of the configuration are defaults: nobody has stated them.
void mark_defaults(Translation& t, const std::string& at) {
    for (Setting& setting : t.settings)
        if (setting.at == at) t.defaulted.push_back(setting.key + " = " + setting.value);
}

}  // namespace

bool is_nemo_launch(const std::string& program, Document& arguments) {
    const bool trainer = std::ranges::any_of(
        arguments.values, [](const NamedValue& v) { return v.name.starts_with("trainer."); });
    return program.starts_with("megatron_") &&
           (trainer || arguments.states("config_name") || arguments.states("config_path") ||
            std::ranges::any_of(arguments.values,
                                [](const NamedValue& v) { return v.name.starts_with("model."); }));
}

Translation translate_nemo_launch(const std::string& program, Document arguments,
                                  const std::string& path) {
    const auto *file = arguments.find("config_name"), *folder = arguments.find("config_path");
    std::string named;
    if (file)
        named = found_file((std::filesystem::path(folder ? folder->value : "conf") /
                            (file->value + (file->value.ends_with(".yaml") ? "" : ".yaml")))
                               .string(),
                           path);
    if (!named.empty()) {
        Document d = read_yaml(plain_utf8(read_text(named, "NeMo's configuration")), named);
        for (NamedValue& value : arguments.values) d.values.push_back(std::move(value));
        d.path = path;
        return translate_nemo(std::move(d));
    }
    const auto all = configurations(nemo_programs_path());
    const auto known = std::ranges::find_if(all, [&](const Configuration& each) {
        return file ? each.name == std::filesystem::path(file->value).stem().string()
                    : contains(each.programs, program);
    });
    if (file && known == all.end())
        refuse(
            "{}: config_name: {} is not there; expected the file beside the script, or "
            "give it to stepcast itself",
            file->at, file->value);
    const NamedValue elsewhere = folder && std::filesystem::path(folder->value).filename() != "conf"
                                     ? *folder
                                     : NamedValue();
    Configuration none;
    const bool has_own = known != all.end();
    const std::string at = has_own ? "default of NeMo's " + known->name + ".yaml" : "";
    Translation t =
        translate_nemo(under_overrides(has_own ? *known : none, std::move(arguments), at));
    t.path = path;
    if (!elsewhere.value.empty())
        add_line(t.open,
                 "config_path ({}): {} is not there: what the overrides leave to it is taken from "
                 "NeMo's own files",
                 elsewhere.at, elsewhere.value);
    if (has_own)
        mark_defaults(t, at);
    else
        add_line(t.open,
                 "{}.py: its configuration is not known here: what the overrides leave to "
                 "it is taken from NeMo's code",
                 program);
    return t;
}

// ---- NeMo 2

namespace {

// The recipe that --factory names.
Configuration recipe_of(const NamedValue* factory, const std::string& path) {
    const auto all = configurations(nemo_recipes_path());
    const std::string named = factory ? factory->value.substr(0, factory->value.find('(')) : "";
    const auto recipe = std::ranges::find(all, named, &Configuration::name);
    if (recipe != all.end()) return *recipe;
    std::vector<std::string> known;
    for (const auto& each : all) known.push_back(each.name);
    refuse(
        "{}: nemo: {}; expected --factory and a recipe of NeMo 2 whose parallel layout "
        "is known{}; or write the layout as a script of Megatron-LM or an experiment",
        factory ? factory->at : path,
        factory ? "recipe \"" + named + "\" is not known" : "no --factory",
        did_you_mean(named, known));
}

}  // namespace

Translation translate_nemo_recipe(Document arguments) {
    const auto* factory = arguments.find("factory");
    const Configuration recipe = recipe_of(factory, arguments.path);
    // "llama3_70b(num_nodes=4)": arguments of the recipe.
    const auto inside = factory->value.size() > recipe.name.size()
                            ? factory->value.substr(recipe.name.size() + 1)
                            : "";
    const std::string at = "default of NeMo's recipe " + recipe.name;
    Document stated{arguments.path, {}};
    for (const std::string& word : words_of(inside, "(), "))
        if (const auto equals = word.find('='); equals != std::string::npos)
            stated.add(
                word.substr(0, equals) == "num_gpus_per_node" ? "devices" : word.substr(0, equals),
                word.substr(equals + 1), factory->at);
    for (NamedValue& value : arguments.values) stated.values.push_back(value);
    Document d = under_overrides(recipe, std::move(stated), at);
    for (const char* section : {"trainer.strategy.ddp.", "trainer.strategy.", "trainer.",
                                "model.config.", "data.", "optim.config."})
        drop_sections(d, {section});
    const auto *nodes = d.find("num_nodes"), *devices = d.find("devices");
    const long ranks = nodes && devices ? count_in(*nodes) * count_in(*devices) : 0;
    Translation t = translate_megatron(d, MegatronDialect::bridge, ranks);
    t.format = "NeMo 2";
    t.framework = "nemo-2";
    if (!recipe.model.empty() && !d.states("num_layers")) {
        t.set("workload.preset", recipe.model, at);
        std::erase_if(t.open, [](const std::string& line) { return has(line, "--model"); });
    }
    if (ranks > 0) {
        t.set("cluster.nodes", count_in(*nodes), nodes->at);
        t.set("cluster.gpus_per_node", count_in(*devices), devices->at);
    }
    mark_defaults(t, at);
    return t;
}

// ---- torchtitan

bool is_titan_script(const ShellArgument& word) {
    return std::filesystem::path(word.text).filename() == "run_train.sh";
}

bool is_titan_launch(const ShellLaunch& launch) {
    return std::ranges::any_of(launch.arguments, [](const ShellArgument& a) {
        return a.text.starts_with("--job.config") || a.text == "torchtitan.train" ||
               a.text.ends_with("torchtitan/train.py") || is_titan_script(a);
    });
}

namespace {

// From 0.3 on a policy of recompute is a subcommand: "activation-checkpoint:full".
bool is_policy(const std::string& word) {
    return word.starts_with("activation-checkpoint:") || word.starts_with("activation_checkpoint:");
}

// The word behind "--module", or "" without it.
std::string word_of(const ShellLaunch& launch, const std::string& flag) {
    for (const std::size_t i : indices_of(launch.arguments)) {
        const std::string& text = launch.arguments[i].text;
        if (text.starts_with(flag + "=")) return text.substr(flag.size() + 1);
        if (text == flag && i + 1 < launch.arguments.size()) return launch.arguments[i + 1].text;
    }
    return "";
}

// The function of Python that a run of 0.3 names by flags, or for run_train.sh by variables; two ""
// without it.
struct TitanFunction {
    std::string module, config;
};
TitanFunction function_of(const ShellLaunch& launch) {
    const auto variable = [&](const char* name) {
        const auto found = launch.environment.find(name);
        return found == launch.environment.end() ? "" : found->second;
    };
    if (std::ranges::any_of(launch.arguments, is_titan_script))
        return {variable("MODULE"), variable("CONFIG")};
    return {word_of(launch, "--module"), word_of(launch, "--config")};
}

// A run of 0.3: what its function of Python sets beside the flags is not known here.
Document of_function(const TitanFunction& function, Document stated) {
    // torchtitan/trainer.py of 0.3: selective, which is by operator since then
    const std::string at = "default of torchtitan 0.3";
    stated.values.insert(stated.values.begin(),
                         {{"activation_checkpoint.mode", "selective", at},
                          {"activation_checkpoint.selective_ac_option", "op", at}});
    stated.add("model.name", function.module, stated.path);
    stated.add("model.flavor", function.config, stated.path);
    return stated;
}

// "--training.local_batch_size 4", "--compile.enable", "--compile.no-enable": values of the TOML
// file.
void add_overrides(const ShellLaunch& launch, Document& d) {
    const auto& arguments = launch.arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto& [text, at] = arguments[i];
        if (is_policy(text)) {
            const std::string policy = text.substr(text.find(':') + 1);
            d.add("activation_checkpoint.mode",
                  policy == "memory-budget" ? "memory_budget" : policy, at);
            d.add("activation_checkpoint.selective_ac_option", "op", at);
            continue;
        }
        const auto equals = text.find('='), dot = text.find('.');
        if (!text.starts_with("--") || dot == std::string::npos || dot > equals) continue;
        auto [name, value] = flag_at(arguments, i, [](const std::string& next) {
            return next.starts_with("--") || is_policy(next);
        });
        const auto last = name.find_last_of('.') + 1;
        const bool off = value.empty() && name.compare(last, 3, "no_") == 0;
        if (off) name.erase(last, 3);
        d.add(name, off ? "false" : value.empty() ? "true" : value, at);
    }
}

}  // namespace

namespace {

// The TOML file that a flag or the environment names; "" = none.
std::string titan_file(const ShellLaunch& launch, Document& stated) {
    if (const auto* file = stated.find_any({"job.config_file", "config_file"})) return file->value;
    const auto found = value_in(launch.environment, "CONFIG_FILE");
    return found ? *found : "";
}

// The file's values below those of the flags.
Document below_flags(const std::string& file, const Document& stated) {
    if (file.empty())
        refuse(
            "{}: a launch of torchtitan that names neither a TOML file nor a function; "
            "expected CONFIG_FILE=.., --job.config_file, or --module and --config",
            stated.path);
    const auto found = found_file(file, stated.path);
    if (found.empty())
        refuse(
            "{}: {} is not there, which has the model and most of the parallel layout; "
            "expected it beside the script, above it, or in the working folder",
            stated.path, file);
    Document d =
        read_toml_values(plain_utf8(read_text(found, "torchtitan's configuration")), found);
    append(d.values, stated.values);
    d.path = stated.path;
    return d;
}

}  // namespace

Translation translate_titan_launch(const ShellLaunch& launch, long per_node, long ranks,
                                   const std::string& path, const TranslateOptions& options) {
    Document d{path, {}};
    add_overrides(launch, d);
    const std::string file = titan_file(launch, d);
    const TitanFunction function = file.empty() ? function_of(launch) : TitanFunction{};
    d = function.module.empty() ? below_flags(file, d) : of_function(function, d);
    // run_train.sh starts NGPU processes, 8 unless told.
    const auto gpus = value_in(launch.environment, "NGPU");
    if (ranks == 0 && std::ranges::any_of(launch.arguments, is_titan_script))
        ranks = per_node = gpus ? count_in({"NGPU", *gpus, path}) : 8;
    Translation t = translate_torchtitan(d, options.model, options.replicas);
    if (const long split = t.ranks_of_split();
        ranks > 0 && options.replicas == 0 && ranks % split == 0)
        t = translate_torchtitan(d, options.model, ranks / split);
    t.path = path;
    if (!function.module.empty())
        add_line(
            t.open,
            "what {} of {} sets beside the flags: only flags are read, and the defaults of 0.2",
            function.config, function.module);
    if (ranks > 0) {
        t.set("cluster.nodes", ranks / per_node, path);
        t.set("cluster.gpus_per_node", per_node, path);
        std::erase_if(t.open,
                      [](const std::string& line) { return line.starts_with("how many GPUs"); });
    }
    return t;
}

}  // namespace stepcast
