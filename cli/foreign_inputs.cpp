#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include <fmt/format.h>

#include <fmt/format.h>

#include "cli/arguments.h"
#include "import/launch/emit.h"
#include "import/launch/translate.h"
#include "import/machine/machine.h"
#include "model/base/errors.h"
#include "model/base/whole_files.h"
#include "model/input/show.h"

namespace stepcast {
namespace {

constexpr std::array<std::string_view, 7> log_formats{
    "profile", "nccl-tests", "moe-steps", "moe-phases", "opt-prime", "deepspeed", "custom"};

TranslateOptions translate_options(const Options& options) {
    TranslateOptions how;
    how.model = options.model;
    how.variant = options.variant;
    for (const std::string& text : options.environment) {
        const auto equals = text.find('=');
        if (equals == std::string::npos || equals == 0)
            throw ConfigError("--env " + text + ": expected NAME=VALUE");
        how.environment[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return how;
}

void import_machine(const Options& options) {
    Machine machine = options.inputs.empty() ? usual_node() : Machine{};
    for (const std::string& path : options.inputs) {
        const auto text = plain_utf8(read_text(path, "a description of a machine"));
        switch (recognise_foreign(path)) {
            case ForeignFormat::topology_matrix: read_topology_matrix(text, path, machine); break;
            case ForeignFormat::nccl_topology:
            case ForeignFormat::nccl_graph: read_nccl_topology(text, path, machine); break;
            case ForeignFormat::nvidia_smi: read_nvidia_smi(text, path, machine); break;
            case ForeignFormat::rocm_smi: read_rocm_smi(text, path, machine); break;
            case ForeignFormat::other_listing:
                throw ConfigError(
                    fmt::format("{}: is of {}; expected the output of nvidia-smi topo -m, "
                                "nvidia-smi -q -x or lspci -nn, NCCL's "
                                "topology, or rocm-smi --showtopo",
                                path, other_listing(text)));
            case ForeignFormat::lspci: read_lspci(text, path, machine); break;
            default:
                throw ConfigError(path +
                                  ": is no description of a machine; expected one among the files");
        }
    }
    const auto file = cluster_of_machine(
        machine, std::filesystem::path(options.out).stem().string(), options.gpu);
    write_whole({{options.out, file.text}});
    for (const std::string& line : file.report) options.say(line);
    options.say(options.out + ": a cluster; use it with --cluster");
}

// If a file leaves its number of replicas open, or the chosen machine has room for another number,
// replicas fill the machine, and a batch that the file states per replica follows.
Translation asked_translation(const Options& options, const std::string& name,
                              const std::vector<Override>& overrides) {
    TranslateOptions how = translate_options(options);
    Translation translation = translate(name, how);
    try {
        const Experiment e = read_unchecked_experiment(
            {name + of_translation, experiment_text(translation)}, overrides);
        const auto& p = e.parallelism;
        if (p.dp * p.tp * p.pp * p.cp != rank_count(e.cluster) ||
            p.dp == translation.count("parallelism.dp", 0))
            return translation;
        how.replicas = p.dp;
    } catch (const ConfigError&) {
        return translation;  // the translation's report must come before the complaint
    }
    return translate(name, how);
}

// Whether the format is another tool's, except a config.json, which is read like a preset unless
// --model says what it leaves out.
bool is_translated(const Options& options, ForeignFormat format) {
    return format != ForeignFormat::none &&
           (format != ForeignFormat::hub_config || !options.model.empty());
}

void require_experiment(const std::string& name) {
    if (is_cluster(recognise_foreign(name)))
        throw ConfigError(name +
                          ": describes a machine; expected an experiment. Make it a cluster first: "
                          "stepcast import " +
                          name + " --out cluster.toml");
}

// Only .toml and a model's .json can be stepcast's own.
void refuse_unknown(const std::string& name) {
    if (!name.ends_with(".yaml") && !name.ends_with(".yml")) return;
    if (const auto what = unknown_configuration(name); !what.empty()) throw ConfigError(what);
}

}  // namespace

void require_foreign(const Options& options, const std::vector<std::string>& names) {
    const char* option = !options.model.empty()         ? "--model"
                         : !options.variant.empty()     ? "--variant"
                         : !options.environment.empty() ? "--env"
                                                        : nullptr;
    const auto translated = [&](const std::string& name) {
        return !options.texts.contains(name) && is_translated(options, recognise_foreign(name));
    };
    if (option == nullptr || std::ranges::any_of(names, translated)) return;
    throw ConfigError(
        std::string(option) +
        ": is for what a launch script or configuration of another tool leaves open; " +
        names.front() + " is none. Expected --set, for a model --set workload.preset=..");
}

void require_one_answer(const Options& options) {
    if (!options.emit.empty() && options.json)
        throw ConfigError(
            "--emit and --json: both are the answer on standard output; expected one");
}

std::vector<std::string> files_asked(const Options& options, const std::string& name,
                                     const std::vector<Override>& overrides) {
    if (options.texts.contains(name)) return {};
    if (!is_translated(options, recognise_foreign(name))) {
        refuse_unknown(name);
        return files_of_experiment(name, overrides);
    }
    return {name};
}

std::vector<Override> stated_keys_asked(const Options& options, const std::string& name,
                                        const std::vector<Override>& overrides) {
    if (const auto own = options.texts.find(name); own != options.texts.end())
        return stated_keys({name, own->second}, overrides);
    if (!is_translated(options, recognise_foreign(name))) {
        refuse_unknown(name);
        return stated_keys(name, overrides);
    }
    return stated_keys(
        {name + of_translation, experiment_text(asked_translation(options, name, overrides))},
        overrides);
}

Experiment asked_experiment(const Options& options, const std::string& name,
                            const std::vector<Override>& overrides, bool checked) {
    const auto read = [&](const ExperimentSource& source) {
        return checked ? read_experiment(source, overrides)
                       : read_unchecked_experiment(source, overrides);
    };
    if (const auto own = options.texts.find(name); own != options.texts.end())
        return read({name, own->second});
    const auto format = recognise_foreign(name);
    require_experiment(name);
    if (!is_translated(options, format)) {
        if (format == ForeignFormat::hub_config)
            for (const std::string& line : notes_of_hub_config(name)) options.say("note: " + line);
        return read(name);
    }
    const Translation translation = asked_translation(options, name, overrides);
    for (const std::string& line : report(translation)) options.say(line);
    const bool machine =
        translation.find("cluster.preset") || std::ranges::any_of(overrides, [](const Override& o) {
            return o.key == "cluster.preset" || o.key.starts_with("cluster.gpu.");
        });
    if (checked && !machine)
        throw ConfigError(name +
                          ": names no machine; expected --cluster NAME (stepcast list presets)");
    return read({name + of_translation, experiment_text(translation)});
}

std::string shown(const Options& options) {
    const std::string& name = options.experiment;
    const std::vector<Override> overrides = overrides_of(options);
    if (!is_translated(options, recognise_foreign(name))) {
        refuse_unknown(name);
        return show(name, overrides);
    }
    require_experiment(name);
    const Translation translation = asked_translation(options, name, overrides);
    for (const std::string& line : report(translation)) options.say(line);
    return show({name + of_translation, experiment_text(translation)}, overrides);
}

std::string emitted(const Experiment& experiment, const Options& options,
                    const std::string& forecast) {
    const Emission emission = emit(experiment, parse_name<EmitFormat>(options.emit));
    if (options.emit == "deepspeed") {  // JSON has no comments
        options.say(forecast);
        for (const std::string& line : emission.without) options.say("no counterpart: " + line);
        return emission.text;
    }
    std::string text = "# " + forecast + "\n";
    for (const std::string& line : emission.without) text += "# no counterpart: " + line + "\n";
    return text + emission.text;
}

bool import_foreign(const Options& options) {
    if (options.inputs.empty()) {
        if (options.gpu.empty())
            throw ConfigError(
                "import: of what? expected a FILE, or --gpu NAME for a node of eight by its "
                "datasheet");
        check_options_of_import(options, ImportKind::machine);
        import_machine(options);
        return true;
    }
    auto format = ForeignFormat::none;
    // A log that begins with the dump of its arguments counts as an experiment, unless a table of
    // its steps is asked for.
    const bool log = !options.pattern.empty() || options.out.ends_with(".csv");
    if (options.format == "auto" && !log)
        format = recognise_foreign(options.inputs.front());
    else if (options.format == "auto")
        return false;
    else if (std::ranges::find(log_formats, options.format) == log_formats.end())
        format = parse_foreign_format(options.format, log_formats);
    if (format == ForeignFormat::none) {
        if (const auto what =
                options.format == "auto" ? unknown_configuration(options.inputs.front()) : "";
            !what.empty())
            throw ConfigError(what);
        return false;
    }
    check_options_of_import(options,
                            is_cluster(format) ? ImportKind::machine : ImportKind::configuration);
    if (is_cluster(format)) {
        import_machine(options);
        return true;
    }
    if (options.inputs.size() > 1)
        throw ConfigError("import: one configuration at a time; found several");
    auto how = translate_options(options);
    how.format = format;
    const Translation translation = translate(options.inputs.front(), how);
    write_whole({{options.out, experiment_text(translation)}});
    for (const std::string& line : report(translation)) options.say(line);
    options.say(
        options.out +
        ": an experiment; simulate it, with --cluster and --gpus where it names no machine");
    return true;
}

ImportRequest import_request_of(const Options& options) {
    return {.logs = options.inputs,
            .format = parse_name<LogFormat>(options.format),
            .out = options.out,
            .routing_out = options.routing_out,
            .medians_only = options.medians,
            .kept_phases = options.phases,
            .steps = options.step_range,
            .pattern = options.pattern,
            .system = options.system,
            .model = options.model,
            .inputs = options.step_inputs};
}

namespace {

// A log that begins with the dump of its arguments.
bool is_experiment_log(const std::string& path) {
    return recognise_foreign(path) == ForeignFormat::megatron;
}

}  // namespace

// Nobody named this output: a file that import did not write, as its first line says, stays.
static void keep_by_hand(const std::string& path) {
    std::ifstream there(path);
    std::string first;
    if (std::getline(there, first) && !first.ends_with(", translated"))
        throw ConfigError(path +
                          ": is there and was not written by import, which would replace it by the "
                          "experiment of the log's arguments; expected another --out");
}

bool is_log(const std::string& path) {
    const std::string kind = std::filesystem::path(path).extension().string();
    std::error_code none;
    return std::filesystem::is_regular_file(path, none) &&
           (kind == ".log" || kind == ".out" || kind == ".txt" || is_experiment_log(path));
}

std::vector<std::string> import_logs(const Options& options) {
    ImportRequest request = import_request_of(options);
    std::optional<Translation> own;
    if (options.model.empty() && options.inputs.size() == 1 &&
        is_experiment_log(options.inputs.front())) {
        own = translate(options.inputs.front(), translate_options(options));
        request.model =
            std::filesystem::path(options.out).replace_extension("experiment.toml").string();
        keep_apart({request.model}, options.inputs);
        keep_by_hand(request.model);
        require_writable(request.model);
        request.ranks = static_cast<int>(own->ranks_of_split() * own->count("parallelism.dp", 1));
    }
    std::vector<std::string> lines = import_to_files(request);
    if (!own) return lines;
    write_whole({{request.model, experiment_text(*own)}});
    std::vector<std::string> told = report(*own);
    told.push_back(request.model +
                   ": the experiment of the log's own arguments, which predicts its runs; compare "
                   "with --cluster, where it names no machine");
    told.insert(told.end(), lines.begin(), lines.end());
    return told;
}

std::vector<Comparison> comparisons_of_log(const Options& options, const std::string& path) {
    const auto folder = std::filesystem::temp_directory_path() /
                        fmt::format("stepcast-log-{:08x}", std::random_device{}());
    const struct Removed {
        std::filesystem::path path;
        ~Removed() {
            std::error_code none;
            std::filesystem::remove_all(path, none);
        }
    } removed{folder};
    std::filesystem::create_directories(folder);
    Options import = options;
    import.inputs = {path};
    import.format = "auto";
    import.out = (folder / (std::filesystem::path(path).stem().string() + ".csv")).string();
    for (const std::string& line : import_logs(import))
        if (line.find(folder.string()) == std::string::npos) options.say(line);
    std::vector<Comparison> found =
        read_comparisons(import.out, options.cluster, options.framework);
    for (Comparison& c : found) {
        c.what.source = path;
        if (options.model.empty()) c.what.series = std::filesystem::path(path).stem().string();
        if (const auto at = c.refused_because.find(folder.string() + "/"); at != std::string::npos)
            c.refused_because.erase(at, folder.string().size() + 1);
    }
    return found;
}

ProfileImport profile_import_of(const Options& options) {
    return {.paths = options.inputs,
            .out = options.out,
            .system = options.system,
            .model = options.model,
            .context = {.op = options.op, .ranks = options.ranks, .nodes = options.nodes},
            .format = options.format};
}

}  // namespace stepcast
