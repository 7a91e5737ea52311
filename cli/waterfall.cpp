#include "cli/waterfall.h"

#include <filesystem>

#include "cli/experiment_inputs.h"
#include "cli/output_files.h"
#include "cli/run_inputs.h"
#include "import/tables/case_files.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/input/check_experiment.h"
#include "reports/step_page.h"
#include "reports/waterfall.h"
#include "sim/why/waterfall.h"

namespace stepcast {
namespace {

constexpr const char* expected =
    "expected two experiments, launch scripts, logs, run folders or rows (TABLE.csv:CASE)";

bool holds_cases(const std::string& path) {
    return path.ends_with(".csv") || std::filesystem::is_directory(path) || is_log(path);
}

// What --cluster, --gpus and --set change of a row, which states the rest.
void lay_over(const Options& options, Experiment& e) {
    for (const std::string& text : options.set) set_key(e, parse_override(text));
    if (!options.set.empty()) check_experiment(e);
}

WaterfallSide side_of(const Options& options, const Comparison& c, const std::string& name) {
    if (!c.refused_because.empty()) throw ConfigError(name + ": " + c.refused_because);
    WaterfallSide side{name, c.what.experiment, c.what.measured_step};
    lay_over(options, side.experiment);
    return side;
}

std::vector<WaterfallSide> sides_of_table(const Options& options, const NamedRow& input) {
    if (options.gpus > 0)
        throw ConfigError("--gpus: " + input.path + " says how many ranks ran; expected without");
    const std::vector<Comparison> all =
        is_log(input.path) ? comparisons_of_log(options, input.path)
                           : read_comparisons(input.path, options.cluster, options.framework);
    std::vector<WaterfallSide> found;
    for (const Comparison& c : all)
        if (input.row.empty() || c.what.case_id == input.row)
            found.push_back(side_of(options, c, c.what.case_id));
    if (!found.empty()) return found;
    std::vector<std::string> ids;
    for (const Comparison& c : all) ids.push_back(c.what.case_id);
    throw ConfigError(input.path + ": has no case \"" + input.row + "\"" +
                      did_you_mean(input.row, ids));
}

WaterfallSide side_of_experiment(const Options& options, const std::string& name) {
    const std::string stem = std::filesystem::path(name).stem().string();
    return {stem, asked_experiment(options, name, overrides_of(options), true), {}};
}

void set_measured(std::vector<WaterfallSide>& sides, const std::vector<std::string>& texts) {
    if (texts.size() > sides.size())
        throw ConfigError("--measured: found " + std::to_string(texts.size()) +
                          " times; expected one of each side, - where it is not known");
    for (const std::size_t i : indices_of(texts)) {
        if (texts[i] == "-") continue;
        at_place("--measured " + texts[i], [&] { sides[i].measured = parse_seconds(texts[i]); });
        if (sides[i].measured <= Seconds(0))
            throw ConfigError("--measured " + texts[i] + ": expected more than 0");
    }
}

std::vector<WaterfallSide> sides_of(const Options& options) {
    std::vector<WaterfallSide> sides;
    for (const std::string& input : options.inputs) {
        const NamedRow one = named_row(input);
        if (!holds_cases(one.path)) {
            sides.push_back(side_of_experiment(options, input));
            continue;
        }
        const auto more = sides_of_table(options, one);
        append(sides, more);
        if (sides.size() > 2) break;
    }
    if (sides.size() != 2)
        throw ConfigError("--waterfall: found " +
                          (sides.size() > 2 ? "more than two" : std::to_string(sides.size())) +
                          "; " + expected);
    if (sides[0].name == sides[1].name) {
        sides[0].name = options.inputs.front();
        sides[1].name = options.inputs.back();
    }
    set_measured(sides, options.measured);
    return sides;
}

void check_waterfall_files(const Options& options) {
    Paths inputs, outputs;
    for (const std::string& input : options.inputs) inputs.push_back(named_row(input).path);
    add_in(outputs, options.out, {"summary.md", "report.html", "waterfall.png", "waterfall.svg"},
           inputs);
    check_outputs(outputs, named(inputs, {options.cluster, options.framework, options.model}));
}

}  // namespace

int run_waterfall(const Options& options) {
    if (!options.trace.empty() || options.strict)
        throw ConfigError("--waterfall: goes without --trace and --strict");
    check_waterfall_files(options);
    const auto sides = sides_of(options);
    const Waterfall found = waterfall(sides[0], sides[1], options.threads);
    if (!options.out.empty()) {
        std::vector<Fact> origin =
            origin_of(sides[0].experiment, {version_text(), options.command});
        add_once(origin, origin_of(sides[1].experiment, {version_text(), options.command}));
        write_waterfall(options.out, found, origin);
    }
    print(options.json ? to_json(found) : waterfall_table(found));
    return 0;
}

}  // namespace stepcast
