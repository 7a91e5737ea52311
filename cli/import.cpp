// stepcast import: other tools' configurations, machines, logs and profiles to experiments,
// clusters and tables.

#include <array>
#include <filesystem>
#include <string_view>

#include "cli/experiment_inputs.h"
#include "cli/output_files.h"
#include "cli/run_inputs.h"
#include "cli/verbs.h"
#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "import/launch/unknown.h"
#include "import/machine/machine.h"
#include "import/machine/nccl_topology.h"
#include "import/machine/node_listings.h"
#include "import/machine/smi_listings.h"
#include "import/profiles/import_profiles.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/refuse.h"
#include "model/base/whole_files.h"

namespace stepcast {
namespace {

constexpr const char *of_logs = "Logs", *of_profiles = "Profiles and nccl-tests";

constexpr std::array<std::string_view, 7> log_formats{
    "profile", "nccl-tests", "moe-steps", "moe-phases", "opt-prime", "deepspeed", "custom"};

// Kinds of input, by which of the options each uses.
enum class ImportKind : unsigned { machine = 1, configuration = 2, log = 4, profile = 8 };

constexpr unsigned bit(ImportKind kind) { return static_cast<unsigned>(kind); }
constexpr unsigned machines = bit(ImportKind::machine),
                   configurations = bit(ImportKind::configuration), logs = bit(ImportKind::log),
                   profiles = bit(ImportKind::profile);

std::string names_of_kinds(unsigned kinds) {
    constexpr std::pair<unsigned, const char*> all[] = {{machines, "machines"},
                                                        {configurations, "configurations"},
                                                        {logs, "logs"},
                                                        {profiles, "profiles"}};
    std::string text;
    for (const auto& [kind, word] : all)
        if ((kinds & kind) != 0) text += (text.empty() ? "" : " and ") + std::string(word);
    return text;
}

void check_import_options(const Options& options, ImportKind kind) {
    const struct {
        const char* name;
        bool given;
        unsigned kinds;
    } all[] = {{"--gpu", !options.gpu.empty(), machines},
               {"--variant", !options.variant.empty(), configurations},
               {"--env", !options.environment.empty(), configurations},
               {"--model", !options.model.empty(), configurations | logs | profiles},
               {"--system", !options.system.empty(), logs | profiles},
               {"--pattern", !options.pattern.empty(), logs},
               {"--input", !options.step_inputs.empty(), logs},
               {"--medians", options.medians, logs},
               {"--only-steps", !options.step_range.empty(), logs},
               {"--phases", !options.phases.empty(), logs},
               {"--routing-out", !options.routing_out.empty(), logs},
               {"--op", !options.op.empty(), profiles},
               {"--ranks", options.ranks > 0, profiles},
               {"--nodes", options.nodes > 0, profiles}};
    for (const auto& [name, given, kinds] : all)
        if (given && (kinds & bit(kind)) == 0)
            throw ConfigError(
                std::string(name) + ": is of " + names_of_kinds(kinds) + "; " +
                (options.inputs.empty() ? "a node by its datasheet" : options.inputs.front()) +
                " is one of the " + names_of_kinds(bit(kind)) +
                ". Expected the command without it, or another --format");
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
                refuse(
                    "{}: is of {}; expected the output of nvidia-smi topo -m, "
                    "nvidia-smi -q -x or lspci -nn, NCCL's "
                    "topology, or rocm-smi --showtopo",
                    path, other_listing(text));
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

// Translates a configuration or a machine. Returns false if the input is a log.
bool import_foreign(const Options& options) {
    if (options.inputs.empty()) {
        if (options.gpu.empty())
            throw ConfigError(
                "import: of what? expected a FILE, or --gpu NAME for a node of eight by its "
                "datasheet");
        check_import_options(options, ImportKind::machine);
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
    else if (!contains(log_formats, options.format))
        format = parse_foreign_format(options.format, log_formats);
    if (format == ForeignFormat::none) {
        if (const auto what =
                options.format == "auto" ? unknown_configuration(options.inputs.front()) : "";
            !what.empty())
            throw ConfigError(what);
        return false;
    }
    check_import_options(options,
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

ProfileImport profile_import_of(const Options& options) {
    return {.paths = options.inputs,
            .out = options.out,
            .system = options.system,
            .model = options.model,
            .context = {.op = options.op, .ranks = options.ranks, .nodes = options.nodes},
            .format = options.format};
}

int run_import(const Options& options) {
    keep_freed_memory(1 << 17);  // traces are large and are read once
    check_outputs({options.out},
                  named(options.inputs, {options.pattern, options.model, options.gpu}));
    if (import_foreign(options)) return 0;
    const bool told = options.format == "profile" || options.format == "nccl-tests";
    const bool profile_files = told || (options.format == "auto" && are_profiles(options.inputs));
    check_import_options(options, profile_files ? ImportKind::profile : ImportKind::log);
    for (const std::string& line :
         profile_files ? import_profiles(profile_import_of(options)) : import_logs(options))
        options.say(line);
    return 0;
}

}  // namespace

Verb import_verb() {
    const Arguments what{
        {"FILE", &Options::inputs, "", "logs, profiles, scripts, machines"},
        {"--out",
         &Options::out,
         "FILE",
         "MEASUREMENTS.csv, EXPERIMENT.toml or CLUSTER.toml",
         ungrouped,
         {.required = true}},
        {"--format", &Options::format, "FORMAT",
         "auto; profile, nccl-tests; of logs moe-steps, moe-phases, opt-prime, deepspeed, "
         "custom; of configurations megatron, nemo, megatron-bridge, torchtitan, "
         "deepspeed-config; of machines topo, nccl-topology, nvidia-smi, rocm-smi, lspci"}};
    const Arguments machine{{"--gpu", &Options::gpu, "NAME",
                             "the device of a machine whose files do not name it; without "
                             "a file, a node of eight by its datasheet",
                             "Machines"}};
    Arguments configuration = foreign_arguments();
    configuration.erase(configuration.begin());  // --model is of logs too
    const Arguments of_runs{
        {"--model", &Options::model, "MODEL",
         "what the file does not say: a workload or config.json; of "
         "logs a name, or the experiment that predicts the runs",
         of_logs},
        {"--system", &Options::system, "NAME", "what the log does not say: the system", of_logs},
        {"--pattern", &Options::pattern, "FILE.toml", "describes the lines, for --format custom",
         of_logs},
        {"--input", &Options::step_inputs, "KEY=VALUES",
         "KEY=A,B,.. of steps 1, 2, .. that the log does not print", of_logs},
        {"--only-steps", &Options::step_range, "FIRST-LAST", "only these steps", of_logs},
        {"--medians", &Options::medians, "", "write medians and what holds for a run, no samples",
         of_logs},
        {"--phases",
         &Options::phases,
         "NAME,NAME,..",
         "with --medians: keep the samples of these phases",
         of_logs,
         {.comma = true}},
        {"--routing-out", &Options::routing_out, "DIR", "the routing that a log records", of_logs}};
    const Arguments of_tests{
        {"--op", &Options::op, "OP", "of nccl-tests output that does not say it: all_gather, ..",
         of_profiles},
        {"--ranks",
         &Options::ranks,
         "COUNT",
         "ranks of nccl-tests output that does not say it",
         of_profiles,
         {.least = 2}},
        {"--nodes", &Options::nodes, "COUNT",
         "nodes of the job, where profiles or nccl-tests do not say", of_profiles}};
    return {"import",
            "training logs, profiles and nccl-tests to tables; launch scripts and configurations "
            "to experiments; descriptions of machines to clusters",
            "stepcast import train.log --out measured.csv",
            joined({what, configuration, of_runs, of_tests, machine}), run_import};
}

}  // namespace stepcast
