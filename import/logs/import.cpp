#include "import/logs/import.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "import/logs/log_lines.h"
#include "import/logs/run_summary.h"
#include "import/logs/stream_log.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/refuse.h"
#include "model/base/whole_files.h"
#include "model/cluster.h"
#include "model/records/measurement_file.h"
#include "model/routing_file.h"

namespace stepcast {
namespace {

std::string describe(const ImportResult& result, long runs) {
    return fmt::format("{}: {}, {} runs; lines: {} used, {} skipped, {} unknown", result.path,
                       to_string(result.format), runs, result.lines.used, result.lines.skipped,
                       result.lines.unknown);
}

// One file for each recorded routing. Runs of one system and size with equal routing share a file;
// others get a number in their names.
std::vector<PlannedFile> routing_files(const std::vector<ImportedRun>& runs,
                                       const std::string& folder,
                                       std::vector<std::string>& report) {
    std::vector<PlannedFile> files;
    std::map<std::string, std::vector<const ImportedRun*>> taken;
    for (const ImportedRun& run : runs) {
        if (!run.routing) continue;
        const std::string name = fmt::format("{}_{}", run.system, run.experts);
        std::vector<const ImportedRun*>& before = taken[name];
        if (std::ranges::any_of(
                before, [&](const ImportedRun* other) { return other->routing == run.routing; }))
            continue;
        before.push_back(&run);
        const std::string numbered =
            before.size() == 1 ? name + ".csv" : fmt::format("{}-{}.csv", name, before.size());
        if (before.size() > 1)
            add_line(report, "{}: recorded another routing than {}; written to {}", run.run_id,
                     before.front()->run_id, numbered);
        files.push_back(
            {(std::filesystem::path(folder) / numbered).string(), write_routing(*run.routing)});
    }
    if (files.empty()) report.push_back("no run records its routing; no routing file written");
    return files;
}

struct StepRange {
    int first = 0, last = std::numeric_limits<int>::max();
    [[nodiscard]] bool holds(int step) const { return step < 0 || (step >= first && step <= last); }
};

StepRange parse_steps(const std::string& text) {
    if (text.empty()) return {};
    LineCursor cursor(text);
    const auto first = cursor.integer();
    const auto last = cursor.word("-") ? cursor.integer() : std::nullopt;
    if (!first || !last || !cursor.at_end() || *first < 0 || *last < *first)
        throw ConfigError("--only-steps " + text + ": expected FIRST-LAST, for example 30-465");
    return {*first, *last};
}

// Counts steps ten times shorter or longer than both neighbours: a sign of a misread number, as no
// machine does that.
class NeighbourWatch {
public:
    void take(int step, double value) {
        if (seen_ >= 2 && (far(middle_, before_) && far(middle_, value)) &&
            (middle_ < before_) == (middle_ < value) && odd_++ == 0) {
            first_ = step_;
            value_ = middle_;
            like_ = before_;
        }
        before_ = middle_;
        middle_ = value;
        step_ = step;
        ++seen_;
    }
    [[nodiscard]] std::string note() const {
        if (odd_ == 0) return "";
        return fmt::format(
            "warning: step {} took {:.4g} s, after {:.4g} s of the one before it ({} such steps); "
            "is the pattern the right one?",
            first_, value_, like_, odd_);
    }

private:
    static bool far(double a, double b) { return a > 10 * b || b > 10 * a; }
    double before_ = 0, middle_ = 0, value_ = 0, like_ = 0;
    int step_ = -1, first_ = -1, odd_ = 0, seen_ = 0;
};

// Rows as MeasurementFile takes them, kept.
class KeptRows {
public:
    void begin_run(const Sample& like) { like_ = like; }
    void add(std::string_view phase, int rank, int step, double value, std::string_view unit) {
        kept.push_back(sample_of(like_, {phase, rank, step}, value, unit));
        check_sample(kept.back());
    }
    std::vector<Sample> kept;

private:
    Sample like_;
};

// Adds the samples of each run to `rows` as it is read, and keeps its medians.
template <class Rows>
class Import {
public:
    Import(const ImportRequest& request, Rows& rows)
        : request_(request), steps_(parse_steps(request.steps)), rows_(rows) {
        if (request.logs.empty())
            throw ConfigError("import: no log named; expected at least one file");
        for (const std::string& path : request.logs) read(path);
        for (const Sample& row : medians_) {
            rows_.begin_run(row);
            rows_.add(row.phase, row.rank, row.step, row.value, row.unit);
        }
    }
    [[nodiscard]] std::size_t medians() const { return medians_.size(); }
    // those that recorded their routing
    [[nodiscard]] const std::vector<ImportedRun>& routed() const { return runs_; }
    std::vector<std::string> report() { return std::move(report_); }

private:
    void read(const std::string& path) {
        std::vector<std::string> notes;
        long count = 0;
        const ImportResult result =
            stream_log(path, request_, [&](ImportedRun&& run, SampleRecord& samples) {
                ++count;
                take(path, std::move(run), samples, notes);
            });
        report_.push_back(describe(result, count));
        append(report_, notes);
    }

    void take(const std::string& path, ImportedRun&& run, SampleRecord& samples,
              std::vector<std::string>& notes) {
        for (const std::string& note : run.notes) add_line(notes, "{}: {}", run.run_id, note);
        if (!ids_.insert(run.run_id).second)
            refuse("{}: run {} comes from two logs of one file name; rename one of them", path,
                   run.run_id);
        const Sample like = sample_like(run);
        const bool layers = run.model.starts_with("moe_layer");
        const std::string why = too_few_steps(run.run_id, samples.last_step());
        if (!why.empty()) notes.push_back(why);
        const int first = samples.first_step(), start = first_steady_step(samples.last_step() + 1);
        // A resumed run warms up again, so its first steps count from where it resumed.
        const int from =
            first > start ? first + first_steady_step(samples.last_step() + 1 - first) : start;
        Replay replay{.from = from, .has_medians = why.empty(), .summary = {from, !layers}};
        rows_.begin_run(like);
        samples.replay(
            [&](const SampleRecord::Value& v) { take(v, samples.phases()[v.phase], replay); });
        if (!replay.there.empty() &&
            std::ranges::none_of(replay.there, [&](int step) { return steps_.holds(step); }))
            refuse("--only-steps {}: {} has steps {} to {}; expected some of them", request_.steps,
                   run.run_id, *replay.there.begin(), *replay.there.rbegin());
        if (const auto odd = replay.watch.note(); !odd.empty())
            add_line(notes, "{}: {}", run.run_id, odd);
        // Values that only few steps state (overflow, means over a hundred steps) get no median of
        // a steady step.
        const long least = layers ? 1 : std::ssize(replay.steady) / 2;
        for (const Sample& row : replay.summary.rows(like, samples.phases(), least))
            medians_.push_back(row);
        for (const auto& [of, peak] : replay.peaks)
            medians_.push_back(sample_of(like, {of.first, of.second}, peak, "B"));
        for (const Sample& row : routing_rows(run)) medians_.push_back(row);
        if (run.routing && !request_.routing_out.empty()) runs_.push_back(std::move(run));
    }

    // What the values of a run come to as they are read again.
    struct Replay {
        int from;          // the first steady step
        bool has_medians;  // there are steps enough
        RunSummary summary;
        NeighbourWatch watch = {};
        std::set<int> there = {};   // the steps in the log,
        std::set<int> steady = {};  // and the steady ones: with --log-interval 10 every tenth
        // of memory, by phase and rank: a run's is its greatest, not its median
        std::map<std::pair<std::string, int>, double> peaks = {};
    };

    void take(const SampleRecord::Value& v, const SampleRecord::Phase& phase, Replay& replay) {
        if (v.step >= 0) replay.there.insert(v.step);
        if (!steps_.holds(v.step)) return;
        if (v.step >= replay.from) replay.steady.insert(v.step);
        if (is_peak(phase)) {
            double& peak = replay.peaks[{phase.name, v.rank}];
            peak = std::max(peak, v.value);
        } else if (v.step < 0) {
            rows_.add(phase.name, v.rank, v.step, v.value, phase.unit);
        } else {
            if (phase.name == "step" && v.rank == -1) replay.watch.take(v.step, v.value);
            if (replay.has_medians && !is_input(phase.name))
                replay.summary.take(v.phase, v.rank, v.step, v.value);
        }
        if (v.step >= 0 && is_written(phase.name))
            rows_.add(phase.name, v.rank, v.step, v.value, phase.unit);
    }

    static bool is_peak(const SampleRecord::Phase& phase) {
        return phase.unit == "B" && (phase.name == "memory" || phase.name == "memory_reserved");
    }

    [[nodiscard]] bool is_input(const std::string& phase) const {
        return std::ranges::any_of(request_.inputs, [&](const std::string& input) {
            return input.starts_with(phase + "=");
        });
    }

    // Whether samples of a step are written: all, or with medians_only those of the named phases
    // and the inputs.
    [[nodiscard]] bool is_written(const std::string& phase) const {
        const auto& kept = request_.kept_phases;
        return !request_.medians_only || is_input(phase) || contains(kept, phase);
    }

    const ImportRequest& request_;
    StepRange steps_;
    Rows& rows_;
    std::vector<Sample> medians_;
    std::vector<ImportedRun> runs_;
    std::set<std::string> ids_;
    std::vector<std::string> report_;
};

}  // namespace

Sample sample_like(const ImportedRun& run) {
    return {.run_id = run.run_id,
            .system = run.system,
            .model = run.model,
            .experts = run.experts,
            .ranks = run.ranks,
            .phase = ""};
}

std::vector<std::string> import_to_files(const ImportRequest& request) {
    keep_apart({request.out}, request.logs);
    MeasurementFile file(request.out);
    Import import(request, file);
    std::vector<std::string> report = import.report();
    if (!request.routing_out.empty())
        write_whole(routing_files(import.routed(), request.routing_out, report));
    file.finish();
    add_line(report, "{}: {} rows, of them {} medians over steady steps", request.out, file.rows(),
             import.medians());
    return report;
}

ImportedSamples import_samples(const ImportRequest& request) {
    KeptRows rows;
    Import import(request, rows);
    return {std::move(rows.kept), import.report()};
}

}  // namespace stepcast
