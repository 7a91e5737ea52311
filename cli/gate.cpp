#include "cli/gate.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "cli/run_inputs.h"
#include "model/base/errors.h"
#include "model/base/refuse.h"
#include "model/base/whole_files.h"
#include "reports/gate.h"
#include "reports/json.h"
#include "sim/predict.h"
#include "sim/why/gate.h"
#include "sim/why/waterfall.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

struct GateInput {
    GateRun run;
    Experiment experiment;
    int sequences = 0;  // of a step, as the log states them
};

GateInput gate_input(const Case& found, const std::string& input) {
    GateInput r{
        {found.case_id, found.recorded_steps, {}}, found.experiment, found.measured_sequences};
    if (r.run.steps.empty())
        throw ConfigError(input +
                          ": has no single steps; expected a log or measurements with them");
    const auto add = [&](const std::string& name, Seconds time) {
        if (time > Seconds(0)) r.run.phases.emplace_back(name, time);
    };
    add("forward", found.measured_forward.value_or(Seconds(0)));
    add("backward", found.measured_backward.value_or(Seconds(0)));
    for (const MeasuredPhase& phase : found.measured_phases)
        if (phase.rank == -1 && !phase.name.starts_with("memory")) add(phase.name, phase.time);
    return r;
}

std::vector<std::string> files_of_history(const std::string& folder, const std::string& run) {
    if (!fs::is_directory(folder))
        throw ConfigError("--history " + folder + ": is no folder; expected one of run files");
    std::vector<std::string> files;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string path = entry.path().string();
        if ((path.ends_with(".csv") || is_log(path)) && !fs::equivalent(path, run, none))
            files.push_back(path);
    }
    std::ranges::sort(files);
    return files;
}

// A history of another machine or split says nothing about this run.
void require_alike(const Options& options, const GateInput& run, const GateInput& other,
                   const std::string& path) {
    if (run.sequences != other.sequences && run.sequences * other.sequences > 0 && !options.allow)
        refuse(
            "{}: took {} sequences a step, {} {}; expected runs of one "
            "configuration, or --allow",
            path, other.sequences, run.run.name, run.sequences);
    const std::vector<KeyChange> changes = changes_between(other.experiment, run.experiment);
    if (changes.empty() || options.allow) return;
    refuse(
        "{}: ran with {} = {}, {} with {}{}; expected runs of one "
        "configuration, or --allow",
        path, changes[0].key, changes[0].from, run.run.name, changes[0].to,
        changes.size() > 1 ? fmt::format(" (and {} more keys)", changes.size() - 1)
                           : std::string());
}

double share_of_alarms(const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const std::string rest(end);
    if (end == text.c_str() || (!rest.empty() && rest != "%"))
        throw ConfigError("--false-alarms " + text + ": expected a share, as 1%");
    const double share = rest == "%" ? value / 100 : value;
    if (!(share > 0 && share < 0.5))
        throw ConfigError("--false-alarms " + text + ": expected a share between 0 and 0.5");
    return share;
}

GateAnswer gate_answer(const Options& options) {
    if (options.inputs.size() != 1)
        throw ConfigError("--gate: found several inputs; expected one run and --history DIR");
    const std::string& input = options.inputs.front();
    const double share = share_of_alarms(options.false_alarms);  // before files are read
    const std::vector<std::string> files = options.history.empty()
                                               ? std::vector<std::string>{}
                                               : files_of_history(options.history, input);
    if (files.empty())
        throw ConfigError("--gate: no run of history; expected --history DIR with at least one");
    if (!options.junit.empty()) {
        keep_apart({options.junit}, options.inputs);
        keep_apart({options.junit}, files);
        require_writable(options.junit);
    }
    const GateInput run = gate_input(one_case(options, input), input);
    Options quiet = options;  // how each file of history was read tells nothing
    quiet.say = [](const std::string&) {};
    std::vector<GateRun> history;
    for (const std::string& path : files) {
        for (const Case& one : all_cases(quiet, path)) {  // a log that was resumed has several
            const GateInput other = gate_input(one, path);
            require_alike(options, run, other, path);
            history.push_back(other.run);
        }
    }
    GateAnswer found = judge_run(run.run, history, share);
    try {
        found.forecast = predict(run.experiment).step;
    } catch (const ConfigError&) {  // the history alone says what it takes
    }
    if (!options.junit.empty()) write_whole({{options.junit, gate_junit(found)}});
    return found;
}

}  // namespace

int run_gate(const Options& options) {
    const GateAnswer found = gate_answer(options);
    print(options.json ? to_json(found) : gate_text(found));
    if (found.verdict == GateAnswer::Verdict::fail) return 4;
    return found.verdict == GateAnswer::Verdict::cannot_tell ? 5 : 0;
}

}  // namespace stepcast
