#include "cli/arguments.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "calibrate/step_fit_files.h"
#include "cli/read_files.h"
#include "model/base/errors.h"
#include "model/base/whole_files.h"

namespace stepcast {
namespace {

using Paths = std::vector<std::string>;

// Adds the files of a verb's folder that may also be its input: those in `names`, and any existing
// picture or page with the name of an input, because the pictures of all reports are not listed
// here.
void add_in(Paths& outputs, const std::string& folder, std::initializer_list<const char*> names,
            const Paths& inputs) {
    if (folder.empty()) return;
    for (const char* name : names) outputs.push_back(folder + "/" + name);
    std::error_code none;
    for (const std::string& input : inputs) {
        const std::filesystem::path path(input), there = folder / path.filename(),
                                                 kind = path.extension();
        if ((kind == ".png" || kind == ".svg" || kind == ".html" || kind == ".md") &&
            std::filesystem::exists(there, none))
            outputs.push_back(there.string());
    }
}

void check(const Paths& outputs, const Paths& inputs) {
    keep_apart(outputs, inputs);
    keep_apart(outputs, files_behind(inputs));
    for (const std::string& output : outputs) require_writable(output);
}

// `paths`, and those of `more` that are not empty.
Paths named(Paths paths, std::initializer_list<std::string> more) {
    std::ranges::copy_if(more, std::back_inserter(paths),
                         [](const std::string& path) { return !path.empty(); });
    return paths;
}

Paths of_experiment(const Options& options) {
    return named(files_asked(options, options.experiment, overrides_of(options)), {options.market});
}

constexpr unsigned bit(ImportKind kind) { return static_cast<unsigned>(kind); }
constexpr unsigned machine = bit(ImportKind::machine),
                   configuration = bit(ImportKind::configuration), log = bit(ImportKind::log),
                   profile = bit(ImportKind::profile);

std::string words_of(unsigned kinds) {
    constexpr std::pair<unsigned, const char*> all[] = {{machine, "machines"},
                                                        {configuration, "configurations"},
                                                        {log, "logs"},
                                                        {profile, "profiles"}};
    std::string text;
    for (const auto& [kind, word] : all)
        if ((kinds & kind) != 0) text += (text.empty() ? "" : " and ") + std::string(word);
    return text;
}

}  // namespace

void check_files_of_simulate(const Options& options, const std::vector<Variant>& variants) {
    Paths outputs = named({}, {options.trace, options.graph}), inputs = named({}, {options.market});
    for (const Variant& variant : variants)
        for (std::string& file : files_asked(options, variant.experiment, variant.overrides))
            inputs.push_back(std::move(file));
    add_in(outputs, options.out, {}, inputs);
    if (!options.out.empty()) outputs.push_back(options.out + "/report.html");
    check(outputs, inputs);
}

void check_files_of_sweep(const Options& options) {
    Paths outputs;
    const Paths inputs = of_experiment(options);
    add_in(outputs, options.out, {"sweep.csv", "top.csv", "summary.md", "report.html"}, inputs);
    check(outputs, inputs);
}

void check_files_of_execute(const Options& options) {
    Paths outputs = named({}, {options.trace});
    const Paths inputs = of_experiment(options);
    add_in(outputs, options.out,
           {"experiment.toml", "cluster.toml", "framework.toml", "routing.csv", "run.toml",
            "run.csv", "report.html"},
           inputs);
    check(outputs, inputs);
}

void check_files_of_calibrate(const Options& options) {
    Paths outputs = named({options.out}, {options.trace});
    // written next to the cluster's file
    if (options.fit == "both" || (options.fit.empty() && !options.framework.empty()))
        outputs.push_back(framework_file(options.out));
    check(outputs, named(options.measurements, {options.cluster, options.framework}));
}

void check_files_of_compare(const Options& options) {
    Paths outputs = named({}, {options.trace});
    const Paths inputs = named(options.inputs, {options.cluster, options.framework, options.model});
    add_in(outputs, options.out,
           {"compare.csv", "kernels.csv", "summary.md", "kernels.md", "report.html"}, inputs);
    check(outputs, inputs);
}

// An input may be a row of a table (FILE.csv:ROW), whose file is the table.
std::string file_of_row(const std::string& input) {
    const auto row = input.find(".csv:");
    return row == std::string::npos ? input : input.substr(0, row + 4);
}

void check_files_of_diagnose(const Options& options) {
    Paths outputs;
    const Paths inputs =
        named({file_of_row(options.experiment)},
              {options.cluster, options.framework, options.model, options.log, options.nccl_tests});
    add_in(outputs, options.out, {"summary.md", "report.html"}, inputs);
    check(outputs, inputs);
}

void check_files_of_waterfall(const Options& options) {
    Paths inputs, outputs;
    for (const std::string& input : options.inputs) inputs.push_back(file_of_row(input));
    add_in(outputs, options.out, {"summary.md", "report.html", "waterfall.png", "waterfall.svg"},
           inputs);
    check(outputs, named(inputs, {options.cluster, options.framework, options.model}));
}

void check_files_of_import(const Options& options) {
    check({options.out}, named(options.inputs, {options.pattern, options.model, options.gpu}));
}

void check_options_of_import(const Options& options, ImportKind kind) {
    const struct {
        const char* name;
        bool given;
        unsigned kinds;
    } all[] = {{"--gpu", !options.gpu.empty(), machine},
               {"--variant", !options.variant.empty(), configuration},
               {"--env", !options.environment.empty(), configuration},
               {"--model", !options.model.empty(), configuration | log | profile},
               {"--system", !options.system.empty(), log | profile},
               {"--pattern", !options.pattern.empty(), log},
               {"--input", !options.step_inputs.empty(), log},
               {"--medians", options.medians, log},
               {"--only-steps", !options.step_range.empty(), log},
               {"--phases", !options.phases.empty(), log},
               {"--routing-out", !options.routing_out.empty(), log},
               {"--op", !options.op.empty(), profile},
               {"--ranks", options.ranks > 0, profile},
               {"--nodes", options.nodes > 0, profile}};
    for (const auto& [name, given, kinds] : all)
        if (given && (kinds & bit(kind)) == 0)
            throw ConfigError(
                std::string(name) + ": is of " + words_of(kinds) + "; " +
                (options.inputs.empty() ? "a node by its datasheet" : options.inputs.front()) +
                " is one of the " + words_of(bit(kind)) +
                ". Expected the command without it, or another --format");
}

void require_device(const std::string& device) {
    if (device != "host" && device != "cuda")
        throw ConfigError("--device: \"" + device + "\" is no device; expected host or cuda");
}

}  // namespace stepcast
