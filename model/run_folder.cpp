#include "model/run_folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/key_values.h"
#include "model/keys.h"
#include "model/measurements.h"
#include "model/toml_reader.h"
#include "model/whole_files.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

constexpr const char* format_line = "format = 1\n";

std::string array_text(const std::vector<std::string>& texts) {
    std::string text = "[";
    for (const std::string& one : texts) text += (text.size() > 1 ? ", " : "") + quoted_toml(one);
    return text + "]";
}

std::string run_text(const RunRecord& record, const std::string& experiment) {
    std::vector<std::string> overrides;
    for (const Override& one : record.overrides) overrides.push_back(one.key + "=" + one.value);
    const Measurement& m = record.measurement;
    return format_line + fmt::format(
                             "experiment = {}\noverrides = {}\ndevice = {}\ndate = {}\nversions = {}\nwarmup = "
                             "{}\nquiet = {}\nidle_share = {}\nwarnings = {}\n",
                             quoted_toml(experiment), array_text(overrides), quoted_toml(m.device), quoted_toml(m.date),
                             array_text(m.versions), m.warmup, m.quiet, value_text(m.idle_share),
                             array_text(m.warnings));
}

constexpr std::pair<const char*, Seconds StepTimes::*> phases[] = {{"step", &StepTimes::step},
                                                                   {"forward", &StepTimes::forward},
                                                                   {"backward", &StepTimes::backward},
                                                                   {"gradient_sync", &StepTimes::gradient_sync},
                                                                   {"optimizer", &StepTimes::optimizer}};

std::vector<Sample> samples_of(const Measurement& measurement, const Experiment& experiment) {
    Sample sample;
    sample.run_id = experiment.name.empty() ? "run" : experiment.name;
    sample.system = to_string(experiment.parallelism.moe_system);
    sample.model = experiment.workload.name;
    sample.experts = experiment.workload.moe.experts;
    sample.ranks = rank_count(experiment.cluster);
    std::vector<Sample> samples;
    const auto add = [&](const char* phase, double value, const char* unit) {
        sample.phase = phase;
        sample.value = value;
        sample.unit = unit;
        samples.push_back(sample);
    };
    for (const MeasuredStep& step : measurement.steps) {
        ++sample.step;
        for (const auto& [phase, time] : phases) add(phase, (step.times.*time).si(), "s");
        add("accepted", step.accepted ? 1 : 0, "1");
        add("cpu_share", step.cpu_share, "1");
    }
    return samples;
}

std::vector<MeasuredStep> steps_of(const std::vector<Sample>& samples, const std::string& path) {
    std::vector<MeasuredStep> steps;
    for (const Sample& sample : samples) {
        const auto index = static_cast<std::size_t>(sample.step);
        if (sample.step < 0 || index > steps.size())
            throw ConfigError(fmt::format("{}: step {} after {} steps; expected the steps of a run, one after another",
                                          path, sample.step, steps.size()));
        if (index == steps.size()) steps.emplace_back();
        MeasuredStep& step = steps[index];
        bool known = true;
        if (sample.phase == "accepted")
            step.accepted = sample.value != 0;
        else if (sample.phase == "cpu_share")
            step.cpu_share = sample.value;
        else
            known = false;
        for (const auto& [phase, time] : phases)
            if (sample.phase == phase) {
                step.times.*time = Seconds(sample.value);
                known = true;
            }
        if (!known) throw ConfigError(fmt::format("{}: phase \"{}\" is none of a run", path, sample.phase));
    }
    return steps;
}

std::vector<std::string> texts_of(const ConfigValue& found) {
    const auto* values = std::get_if<std::vector<ConfigValue>>(&found.value);
    if (values == nullptr) throw ConfigError("found no array; expected an array of texts");
    std::vector<std::string> texts;
    for (const ConfigValue& value : *values) read_value(value, texts.emplace_back());
    return texts;
}

void read_entry(const TomlEntry& entry, RunRecord& record) {
    Measurement& m = record.measurement;
    if (entry.path == "format") {
        int format = 0;
        read_value(entry.value, format);
        if (format != 1) throw ConfigError(fmt::format("{}: this program reads format 1", format));
    } else if (entry.path == "experiment")
        read_value(entry.value, record.experiment);
    else if (entry.path == "overrides")
        for (const std::string& text : texts_of(entry.value)) record.overrides.push_back(parse_override(text));
    else if (entry.path == "device")
        read_value(entry.value, m.device);
    else if (entry.path == "date")
        read_value(entry.value, m.date);
    else if (entry.path == "versions")
        m.versions = texts_of(entry.value);
    else if (entry.path == "warmup")
        read_value(entry.value, m.warmup);
    else if (entry.path == "quiet")
        read_value(entry.value, m.quiet);
    else if (entry.path == "idle_share")
        read_value(entry.value, m.idle_share);
    else if (entry.path == "warnings")
        m.warnings = texts_of(entry.value);
    else
        throw ConfigError("unknown key");
}

std::string trace_name(std::size_t step) { return fmt::format("trace_{:04}.csv", step); }

}  // namespace

void write_run(const std::string& folder, const RunRecord& record, const Experiment& experiment) {
    const fs::path root(folder);
    std::vector<PlannedFile> files;
    const auto add = [&](const std::string& name, std::string text) {
        files.push_back({(root / name).string(), std::move(text)});
    };
    std::string reference = record.experiment;
    if (fs::is_regular_file(record.experiment)) {
        std::ifstream file(record.experiment, std::ios::binary);
        add("experiment.toml", {std::istreambuf_iterator<char>(file), {}});
        reference = "experiment.toml";
    }
    add("cluster.toml", write_cluster(record.cluster));
    const std::vector<Trace>& traces = record.measurement.traces;
    for (std::size_t step = 0; step < traces.size(); ++step)
        if (step + 1 == traces.size() || !fs::exists(root / trace_name(step)))
            add(trace_name(step), write_trace(traces[step]));
    if (const auto& estimates = record.measurement.estimates; !estimates.empty()) {
        std::string text = "task,estimate_s\n";
        for (const TaskEstimate& one : estimates) text += fmt::format("{},{:.9g}\n", one.task, one.time.si());
        add("estimates.csv", text);
    }
    add("run.csv", write_measurements(samples_of(record.measurement, experiment)));
    add("run.toml", run_text(record, reference));
    write_whole(files);
}

RunRecord read_run(const std::string& folder) {
    const fs::path root(folder);
    RunRecord record;
    for (const TomlEntry& entry : read_toml((root / "run.toml").string()).entries) {
        try {
            read_entry(entry, record);
        } catch (const ConfigError& e) {
            throw ConfigError(fmt::format("{}: {}: {}", entry.value_at, entry.path, e.what()));
        }
    }
    if (record.experiment == "experiment.toml") record.experiment = (root / record.experiment).string();
    record.cluster = read_cluster((root / "cluster.toml").string());
    const std::string samples = (root / "run.csv").string();
    record.measurement.steps = steps_of(read_measurements(samples), samples);
    for (std::size_t step = 0; step < record.measurement.steps.size(); ++step)
        record.measurement.traces.push_back(read_trace((root / trace_name(step)).string()));
    return record;
}

Experiment experiment_of(const RunRecord& record) {
    Experiment experiment = read_experiment(record.experiment, record.overrides);
    experiment.cluster = record.cluster;
    check_experiment(experiment);
    return experiment;
}

}  // namespace stepcast
