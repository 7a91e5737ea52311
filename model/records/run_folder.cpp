#include "model/records/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/stamp.h"
#include "model/base/whole_files.h"
#include "model/graph/trace.h"
#include "model/graph/trace_file.h"
#include "model/input/check_experiment.h"
#include "model/input/fields.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/machine/cluster_file.h"
#include "model/records/measurements.h"
#include "model/routing_file.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

// exists from the start of a run to its first sample
constexpr const char* begun_file = "run.begun";

// Creates the folder if necessary and returns a descriptor of it.
int opened_folder(const std::string& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw ConfigError(folder + ": cannot be made (" + error.message() + ")");
    const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) throw ConfigError(folder + ": cannot be opened (" + std::strerror(errno) + ")");
    return opened;
}

// The reason why a run may not be written here, or "". A run that ended before its first sample may
// be replaced.
std::string not_free(const std::string& folder) {
    const fs::path root(folder);
    if (fs::exists(root / "run.toml")) return "holds a run already";
    if (fs::exists(root / begun_file)) return "";
    for (const char* name : {"experiment.toml", "cluster.toml", "framework.toml", "routing.csv",
                             "run.csv", "trace_0000.csv", "report.html"})
        if (fs::exists(root / name))
            return std::string("holds a ") + name + " that is of no run and would be overwritten";
    return "";
}

// A value that is stored of a sample, in SI units.
struct KeptValue {
    const char* phase;
    const char* unit;
    double (*get)(const MeasuredStep&);
    void (*set)(MeasuredStep&, double);
};
template <Seconds StepTimes::*time>
constexpr KeptValue time_of(const char* phase) {
    return {phase, "s", [](const MeasuredStep& s) { return (s.times.*time).si(); },
            [](MeasuredStep& s, double value) { s.times.*time = Seconds(value); }};
}
constexpr KeptValue kept_values[] = {
    time_of<&StepTimes::step>("step"),
    time_of<&StepTimes::forward>("forward"),
    time_of<&StepTimes::backward>("backward"),
    time_of<&StepTimes::gradient_sync>("gradient_sync"),
    time_of<&StepTimes::optimizer>("optimizer"),
    {"accepted", "1", [](const MeasuredStep& s) { return s.accepted ? 1.0 : 0.0; },
     [](MeasuredStep& s, double value) { s.accepted = value != 0; }},
    {"cpu_share", "1", [](const MeasuredStep& s) { return s.cpu_share; },
     [](MeasuredStep& s, double value) { s.cpu_share = value; }},
};

std::vector<Sample> samples_of(const MeasuredStep& step, std::size_t index,
                               const Experiment& experiment) {
    Sample sample;
    sample.run_id = experiment.name.empty() ? "run" : experiment.name;
    sample.system = to_string(experiment.parallelism.moe_system);
    sample.model = experiment.workload.name;
    sample.experts = experiment.workload.moe.experts;
    sample.ranks = rank_count(experiment.cluster);
    sample.step = as_int(index);
    std::vector<Sample> samples;
    for (const KeptValue& kept : kept_values) {
        sample.phase = kept.phase;
        sample.value = kept.get(step);
        sample.unit = kept.unit;
        samples.push_back(sample);
    }
    return samples;
}

std::vector<MeasuredStep> steps_of(const std::vector<Sample>& samples, const std::string& path) {
    std::vector<MeasuredStep> steps;
    std::vector<std::set<std::string>> phases;  // of each step
    for (const Sample& sample : samples) {
        const auto index = as_index(sample.step);
        if (sample.step < 0 || index > steps.size())
            throw ConfigError(fmt::format(
                "{}: step {} after {} steps; expected the steps of a run, one after another", path,
                sample.step, steps.size()));
        if (index == steps.size()) {
            steps.emplace_back();
            phases.emplace_back();
        }
        const auto kept = first_with(kept_values, sample.phase, &KeptValue::phase);
        if (!kept)
            throw ConfigError(fmt::format("{}: phase \"{}\" is none of a run", path, sample.phase));
        if (!phases[index].insert(sample.phase).second)
            throw ConfigError(
                fmt::format("{}: step {} has two values of {}; expected its phases once each", path,
                            index, sample.phase));
        kept->set(steps[index], sample.value);
    }
    constexpr std::size_t of_a_step = std::size(kept_values);
    for (const std::size_t step : indices_of(steps))
        if (phases[step].size() != of_a_step)
            throw ConfigError(
                fmt::format("{}: step {} has {} values; expected its {} phases, once each", path,
                            step, phases[step].size(), of_a_step));
    return steps;
}

// What run.toml holds besides the measurement.
struct RunHead {
    KEY(int, format, 0, "of the folder", 1, 2);
    KEY(std::string, experiment, {}, "format 1: the file or preset; then only its name");
    KEY(std::vector<std::string>, overrides, {}, "of the command line");
    KEY_NAMED(std::string, graph_stamp, {}, "stamp.graph", "of the step that was executed");
    KEY_NAMED(std::string, routing_stamp, {}, "stamp.routing", "of routing.csv");
    KEY_NAMED(std::string, experiment_stamp, {}, "stamp.experiment", "of experiment.toml");
    KEY_NAMED(std::string, cluster_stamp, {}, "stamp.cluster", "of cluster.toml");
    KEY_NAMED(std::string, framework_stamp, {}, "stamp.framework", "of framework.toml");
    // State of the framework that experiment.toml cannot express, because it holds every key.
    KEY_NAMED(std::vector<std::string>, stated, {}, "framework.stated",
              "keys that the experiment states itself");
    KEY_NAMED(std::vector<std::string>, replaced, {}, "framework.replaced",
              "what the framework replaced");
};

std::string trace_name(std::size_t step) { return fmt::format("trace_{:04}.csv", step); }

// Every key that differs from its default, so that the folder depends on nothing outside.
std::string experiment_text(const Experiment& experiment) {
    std::string text = "cluster.preset = \"cluster.toml\"\n";
    if (!experiment.framework.name.empty()) text += "framework.preset = \"framework.toml\"\n";
    for (const Key& key : all_keys())
        if (!key.path.starts_with("cluster.") && !key.path.starts_with("framework.") &&
            !is_preset(key) && !is_unset(key, experiment))
            text += fmt::format("{} = {}\n", key.path, toml_text_of(key, experiment));
    return text;
}

void require_stamp(const std::string& path, const std::string& expected) {
    if (stamp_of(read_text(path, "a file of a run", any_size)) != expected)
        throw ConfigError(path + ": is not what the run wrote (its stamp in run.toml is " +
                          expected + "); expected the folder of one run, as it was written");
}

// Format 1 stored only the name of the experiment, which may have changed since. The cluster is
// that of the run.
Experiment read_named_experiment(const fs::path& root, const RunHead& head,
                                 const RunRecord& record) {
    const std::string own = (root / "experiment.toml").string();
    Experiment experiment = stated_experiment(
        head.experiment == "experiment.toml" ? own : head.experiment, record.overrides);
    experiment.cluster = stated_cluster((root / "cluster.toml").string());
    check_experiment(experiment);
    return experiment;
}

// Folders of before November 2026 have older names, and values in older words.
Overlay overlay_of(const RunHead& head) {
    Overlay overlay;
    for (const std::string& name : head.stated) {
        const Key* const key = find_key(name);
        overlay.stated.emplace_back(key ? canonical(*key) : name);
    }
    for (const std::string& text : head.replaced) {
        const Override one = parse_override(text);
        const Key* const key = find_key(one.key);
        if (!key) continue;  // of a framework that had more keys
        Experiment holder;
        assign_text(*key, holder, one.value);
        const std::string now(canonical(*key));
        overlay.under.push_back({now, text_of(*find_key(now), holder)});
    }
    return overlay;
}

Experiment read_whole_experiment(const fs::path& root, const RunHead& head) {
    require_stamp((root / "experiment.toml").string(), head.experiment_stamp);
    require_stamp((root / "cluster.toml").string(), head.cluster_stamp);
    if (!head.framework_stamp.empty())
        require_stamp((root / "framework.toml").string(), head.framework_stamp);
    if (!head.routing_stamp.empty())
        require_stamp((root / "routing.csv").string(), head.routing_stamp);
    Experiment experiment = stated_experiment((root / "experiment.toml").string());
    experiment.name = head.experiment;
    experiment.overlay = overlay_of(head);
    return experiment;
}

}  // namespace

RunFolder::RunFolder(const std::string& folder, const Experiment& experiment,
                     const std::vector<Override>& overrides, const TaskGraph& graph)
    : folder_(folder), graph_stamp_(stamp_of(graph)), experiment_(experiment) {
    lock_ = opened_folder(folder);
    const auto refuse = [&](const std::string& why) {
        close(lock_);
        throw ConfigError(folder + ": " + why + "; expected another folder for --out");
    };
    if (flock(lock_, LOCK_EX | LOCK_NB) != 0) refuse("another run is writing it");
    if (const std::string why = not_free(folder); !why.empty()) refuse(why);
    try {
        std::vector<PlannedFile> files;
        RunHead head;
        head.format = 2;
        head.experiment = experiment.name;
        head.graph_stamp = graph_stamp_;
        for (const Override& one : overrides) head.overrides.push_back(one.key + "=" + one.value);
        const auto add = [&](std::string& stamp, const std::string& name, const std::string& text) {
            stamp = stamp_of(text);
            files.push_back({path(name), text});
        };
        Experiment whole = experiment;
        if (!whole.routing.file.empty()) {
            const auto [file, layer] = routing_parts(whole.routing.file);
            add(head.routing_stamp, "routing.csv", read_text(file, "a routing file", any_size));
            whole.routing.file = "routing.csv" + layer;
        }
        add(head.experiment_stamp, "experiment.toml", experiment_text(whole));
        add(head.cluster_stamp, "cluster.toml", write_cluster(experiment.cluster));
        const Framework& framework = experiment.framework;
        if (!framework.name.empty())
            add(head.framework_stamp, "framework.toml", write_framework(framework));
        head.stated = experiment.overlay.stated;
        for (const auto& one : experiment.overlay.under)
            head.replaced.push_back(one.key + "=" + one.value);
        head_ = field_lines(head, {head.routing_stamp.empty() ? "stamp.routing" : "",
                                   framework.name.empty() ? "stamp.framework" : ""});
        write_whole({{path(begun_file), head_}});
        write_whole(files);
    } catch (...) {
        close(lock_);
        throw;
    }
}

RunFolder::~RunFolder() {
    if (rows_ >= 0) close(rows_);
    close(lock_);
}

// Writes the trace first, then the sample's rows in one piece, so a reader never finds a sample
// without its trace.
void RunFolder::add(const Measurement& sofar) {
    const std::string table = path("run.csv");
    const auto fail = [&](int error) {
        throw ConfigError(table + ": cannot be written (" + std::strerror(error) + ")");
    };
    const bool first = written_ == 0;
    if (first && rows_ < 0) {
        rows_ = open(table.c_str(), O_CREAT | O_TRUNC | O_APPEND | O_WRONLY | O_CLOEXEC, 0666);
        if (rows_ < 0) fail(errno);
    }
    for (; written_ < sofar.steps.size(); ++written_) {
        write_whole(
            {{path(trace_name(written_)), write_trace(sofar.traces[written_], graph_stamp_)}});
        std::string rows =
            write_measurements(samples_of(sofar.steps[written_], written_, experiment_));
        if (written_ > 0) rows.erase(0, rows.find('\n') + 1);  // the file has its header already
        const off_t before = lseek(rows_, 0, SEEK_END);
        const ssize_t count = write(rows_, rows.data(), rows.size());
        if (count != static_cast<ssize_t>(rows.size())) {
            const int error = count < 0 ? errno : EFBIG;
            if (ftruncate(rows_, before) != 0) fail(errno);
            fail(error);
        }
    }
    if (first && written_ > 0) write_head(sofar);
}

void RunFolder::finish(const Measurement& measured) {
    add(measured);
    if (written_ > 0) write_head(measured);
}

void RunFolder::write_head(const Measurement& m) {
    write_whole({{path("run.toml"), head_ + field_lines(m)}});
    std::error_code none;
    fs::remove(path(begun_file), none);
}

RunRecord read_run(const std::string& folder) {
    const fs::path root(folder);
    RunRecord record;
    RunHead head;
    each_entry(
        read_toml((root / "run.toml").string()).entries,
        [&](const TomlEntry& entry) {
            if (!read_field(entry.path, entry.value, head))
                return read_field(entry.path, entry.value, record.measurement);
            if (entry.path == "overrides")
                for (const std::string& text : head.overrides)
                    record.overrides.push_back(parse_override(text));
            return true;
        },
        [](const TomlEntry& entry) { return entry.path + ": unknown key"; });
    record.graph_stamp = head.graph_stamp;
    record.experiment = head.format == 2 ? read_whole_experiment(root, head)
                                         : read_named_experiment(root, head, record);
    const std::string samples = (root / "run.csv").string();
    record.measurement.steps = steps_of(read_measurements(samples), samples);
    for (const std::size_t step : indices_of(record.measurement.steps)) {
        const std::string path = (root / trace_name(step)).string();
        TraceFile file = read_trace(path);
        if (file.graph_stamp != record.graph_stamp)
            throw ConfigError(path + ": is of another run (graph \"" + file.graph_stamp +
                              "\", run.toml says \"" + record.graph_stamp + "\")");
        record.measurement.traces.push_back(std::move(file.trace));
    }
    return record;
}

void require_traces_of(const TaskGraph& graph, const RunRecord& record, const std::string& folder) {
    const std::vector<Trace>& traces = record.measurement.traces;
    for (const std::size_t step : indices_of(traces))
        if (const std::string why = span_mismatch(graph, traces[step]); !why.empty())
            throw ConfigError(fmt::format("{}/{}: {}; expected the trace of this experiment's step",
                                          folder, trace_name(step), why));
}

}  // namespace stepcast
