// The common currency of what-if tables, published tables and own runs: one training configuration a row, with its
// measured step. Header: docs/formats.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/answers/traced_step.h"
#include "model/answers/forecast.h"
#include "model/experiment.h"
#include "model/progress.h"
#include "model/records/measurements.h"

namespace stepcast {

// A row as read: columns by header name, unknown columns refused, missing ones empty.
struct CaseRow {
    std::string file;
    int line = 0;
    std::map<std::string, std::string> cells;
    [[nodiscard]] const std::string& cell(const std::string& column) const;
};
std::vector<CaseRow> read_cases(const std::string& path);  // throws ConfigError with file:line

// A time that a log states next to the step: a phase ("gradient_sync"), a kernel ("lm_head.forward") or the kernels that a
// layer timer brackets ("timed.forward"), of one rank or (-1) of the reporting one.
struct MeasuredPhase {
    std::string name;
    int rank = -1;
    Seconds time;
    friend bool operator==(const MeasuredPhase&, const MeasuredPhase&) = default;
};

// A case that can be predicted: the experiment it says, what had to be assumed, and what was measured.
struct Case {
    std::string source, case_id, series;  // series: rows of one model or system, ranked among themselves
    double x = 0;                         // position in its series (experts), for plots; 0 = none
    Experiment experiment;
    std::vector<std::string> assumptions;
    Seconds measured_step;  // 0 = not known, of refused rows only
    std::optional<Seconds> measured_forward, measured_backward;
    std::optional<Seconds> measured_mean;        // of the step, where the log gives its series
    std::vector<MeasuredPhase> measured_phases;  // beyond forward and backward
    std::vector<Seconds> recorded_steps;         // the steady steps one by one, where they are kept
    std::optional<Bytes> measured_peak;          // memory of the fullest rank
    std::vector<Seconds> measured_durations;     // own runs: of every task of the unfolded step; else empty
    std::vector<RowHash> rows;                   // the measured rows behind it, by content (model/records/provenance.h)
    std::optional<Evidence> evidence;            // what its forecast shows; empty = not looked up
};

// The experiment of a row, or why it cannot be predicted (ConfigError). A model that names a preset experiment is that
// with the row's cells; any other is a transformer whose columns are read as they stand. `cluster` overrides the row's
// gpu column, `framework` what it ran in (cases/shelf.h).
Case case_of(const CaseRow& row, const std::string& cluster, const std::string& framework = "");

struct Comparison {
    Case what;
    std::optional<Forecast> forecast;             // empty: refused
    std::optional<ErrorAttribution> attribution;  // of own runs
    std::string refused_because;
};

// The cases of recorded whole models: each run finds the experiment whose [recorded] table names its system and model, or that its
// model names (preset or file). Rows whose phase is a key ("workload.seq") are inputs of their step, or with step -1 of
// the run; steps with equal inputs are one case. Runs without an experiment are refused, with the reason.
std::vector<Comparison> comparisons_of_recorded(const std::vector<Sample>& samples, const std::string& cluster = "");

// How a recorded run of a whole model finds its experiment: by the [recorded] tables of the shipped experiments.
struct RecordedExperiment {
    std::string preset;
    std::vector<std::string> systems;
    std::string model;
};

// Of all experiment presets, by name; reads only that table.
std::vector<RecordedExperiment> recorded_experiments();

// The preset of a run, or its `model` itself where that names an experiment (preset or .toml file). Throws ConfigError
// that lists what is recorded.
std::string experiment_of_recorded(const std::string& system, const std::string& model,
                                   const std::vector<RecordedExperiment>& known);

// The steps of a PyTorch script, or its MoE layers by themselves, and whether a table with this header holds them.
bool holds_pytorch_steps(const std::vector<std::string>& header);
std::vector<Comparison> comparisons_of_pytorch(const std::string& path, const std::string& cluster = "");

// The MoE layers among imported or own measurements, one run each, under the system that it names, on as many ranks as it
// ran on; measured by the summary rows (step = -1) or, without them, by the median over steps. A run with rows of single
// ranks recorded its routing: the file RUN_ID.csv or SYSTEM_EXPERTS.csv in `routing_folder` is used where it is. `cluster`
// as in case_of. Runs that cannot be predicted are refused, with the reason.
std::vector<Comparison> comparisons_of_layers(const std::vector<Sample>& samples,
                                              const std::string& routing_folder = "", const std::string& cluster = "");

// What a path holds, by its content: a run folder, imported measurements (runs with recorded routing find it in the
// folder routing/ next to them) or a table of cases, of which some may be refused. Nothing is predicted yet.
std::vector<Comparison> read_comparisons(const std::string& path, const std::string& cluster,
                                         const std::string& framework = "");

// Predicts every comparison that was not refused; what prediction refuses is noted there, and the rest goes on.
void predict_all(std::vector<Comparison>& comparisons, const Progress& progress = {});

}  // namespace stepcast
