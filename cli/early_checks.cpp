#include "cli/early_checks.h"

#include <filesystem>

#include "cli/foreign_inputs.h"
#include "model/errors.h"
#include "model/files/whole_files.h"

namespace stepcast {
namespace {

using Paths = std::vector<std::string>;

void check(const Paths& outputs, const Paths& inputs) {
    keep_apart(outputs, inputs);
    for (const std::string& output : outputs) require_writable(output);
}

// Of what a verb writes into its folder, the files that someone may also have as input.
void add_in(Paths& outputs, const std::string& folder, std::initializer_list<const char*> names) {
    if (!folder.empty())
        for (const char* name : names) outputs.push_back(folder + "/" + name);
}

Paths of_experiment(const Options& options) { return files_asked(options, options.experiment, overrides_of(options)); }

Paths trace_of(const Options& options) { return options.trace.empty() ? Paths{} : Paths{options.trace}; }

}  // namespace

void check_files_of_simulate(const Options& options, const std::vector<Variant>& variants) {
    Paths outputs = trace_of(options), inputs;
    add_in(outputs, options.out, {"gantt.png", "gantt.svg", "elasticity.png", "elasticity.svg", "report.html"});
    for (const Variant& variant : variants)
        for (std::string& file : files_asked(options, variant.experiment, variant.overrides)) inputs.push_back(std::move(file));
    check(outputs, inputs);
}

void check_files_of_sweep(const Options& options) {
    Paths outputs;
    add_in(outputs, options.out, {"sweep.csv", "top.csv", "summary.md", "report.html"});
    check(outputs, of_experiment(options));
}

void check_files_of_execute(const Options& options) {
    Paths outputs = trace_of(options);
    add_in(outputs, options.out, {"experiment.toml", "cluster.toml", "framework.toml", "routing.csv", "run.toml", "run.csv", "report.html"});
    check(outputs, of_experiment(options));
}

void check_files_of_calibrate(const Options& options) {
    Paths inputs = options.measurements;
    for (const std::string& other : {options.cluster, options.framework})
        if (!other.empty()) inputs.push_back(other);
    check({options.out}, inputs);
}

void check_files_of_compare(const Options& options) {
    Paths outputs, inputs = options.inputs;
    if (!options.cluster.empty()) inputs.push_back(options.cluster);
    add_in(outputs, options.out, {"compare.csv", "summary.md", "report.html"});
    if (!options.trace.empty()) outputs.push_back(options.trace);
    check(outputs, inputs);
}

void check_files_of_import(const Options& options) {
    Paths inputs = options.inputs;
    for (const std::string& other : {options.pattern, options.model})
        if (!other.empty()) inputs.push_back(other);
    check({options.out}, inputs);
}

void require_device(const std::string& device) {
    if (device != "host" && device != "cuda")
        throw ConfigError("--device: \"" + device + "\" is no device; expected host or cuda");
}

}  // namespace stepcast
