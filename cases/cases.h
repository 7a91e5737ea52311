// The format that what-if tables, published tables and own runs share: one training configuration
// per row, with its measured step. docs/formats.md describes the columns.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/answers/forecast.h"
#include "model/answers/traced_step.h"
#include "model/experiment.h"
#include "model/progress.h"
#include "model/records/measurements.h"

namespace stepcast {

// A row as read, keyed by column name. Unknown columns are refused; missing ones are empty.
struct CaseRow {
    std::string file;
    int line = 0;
    std::map<std::string, std::string> cells;
    [[nodiscard]] const std::string& cell(const std::string& column) const;
};
std::vector<CaseRow> read_cases(const std::string& path);  // throws ConfigError with file:line

// A time that a log states beside the step: of a phase ("gradient_sync"), of a kernel
// ("lm_head.forward"), or of the kernels that a layer timer brackets ("timed.forward"). `rank` is
// the measured rank, or -1 for the rank that reports.
struct MeasuredPhase {
    std::string name;
    int rank = -1;
    Seconds time;
    friend bool operator==(const MeasuredPhase&, const MeasuredPhase&) = default;
};

// A case that can be predicted: the experiment that it describes, what had to be assumed, and what
// was measured.
struct Case {
    // series: rows of one model or system, ranked against each other
    std::string source, case_id, series;
    // position in its series (number of experts), for plots; 0 = none
    double x = 0;
    Experiment experiment;
    std::vector<std::string> assumptions;
    Seconds measured_step;  // 0 = not known, which only refused rows may have
    std::optional<Seconds> measured_forward, measured_backward;
    std::optional<Seconds> measured_mean;        // mean step, where the log gives single steps
    std::vector<MeasuredPhase> measured_phases;  // beyond forward and backward
    // the single steady steps, where the log keeps them
    std::vector<Seconds> recorded_steps;
    std::optional<Bytes> measured_peak;  // memory of the rank that uses most
    // own runs: one per task of the unfolded step; else empty
    std::vector<Seconds> measured_durations;
    // hashes of the measured rows behind it (model/records/provenance.h)
    std::vector<RowHash> rows;
    // of a table's row: the hash of its cells; 0 = none
    RowHash cells = 0;
    // whether a fit has read those rows; empty = not looked up
    std::optional<Evidence> evidence;
};

// The experiment of a row. If `model` names a preset experiment, the row's cells override that
// preset; otherwise the row's columns describe a transformer. `cluster` overrides the row's gpu
// column, `framework` its framework (cases/shelf.h). Throws ConfigError when the row cannot be
// predicted.
Case case_of(const CaseRow& row, const std::string& cluster, const std::string& framework = "");

struct Comparison {
    Case what;
    std::optional<Forecast> forecast;             // empty: refused
    std::optional<ErrorAttribution> attribution;  // own runs only
    std::string refused_because;
};

// The cases of recorded whole models. A run's experiment is the one whose [recorded] table lists
// the run's system and model, or the one that its model names (preset or file). A row whose phase
// is a key ("workload.seq") is an input of its step, or of the whole run if its step is -1. Steps
// with equal inputs form one case. Runs without an experiment are refused, with the reason.
std::vector<Comparison> comparisons_of_recorded(const std::vector<Sample>& samples,
                                                const std::string& cluster = "");

// One [recorded] table of a shipped experiment: the systems and the model whose recorded runs
// belong to that experiment.
struct RecordedExperiment {
    std::string preset;
    std::vector<std::string> systems;
    std::string model;
};

// The [recorded] tables of all experiment presets, by name. Nothing else of the presets is read.
std::vector<RecordedExperiment> recorded_experiments();

// The experiment preset of a run, or `model` if that names an experiment (preset or .toml file).
// Throws ConfigError with what is recorded.
std::string experiment_of_recorded(const std::string& system, const std::string& model,
                                   const std::vector<RecordedExperiment>& known);

// Tables of the PyTorch benchmarks: whole steps, or single MoE layers. The first function tells
// whether a header is of such a table.
bool holds_pytorch_steps(const std::vector<std::string>& header);
std::vector<Comparison> comparisons_of_pytorch(const std::string& path,
                                               const std::string& cluster = "");

// The shape of a recorded layer; Sample::model carries it as "moe_layer-1024x4096-fp16-8192-top2".
struct LayerShape {
    int hidden = 0, ffn = 0, tokens = 0, top_k = 0;
    std::string dtype;
    friend bool operator==(const LayerShape&, const LayerShape&) = default;
};
std::string model_name(const LayerShape& shape);
std::optional<LayerShape> parse_model_name(const std::string& name);

// Imported or own measurements of MoE layers, one case per run, with the run's MoE system and
// number of ranks. The measured time is the summary row (step = -1) or, without one, the median
// over the steps. Rows of single ranks mean that the run recorded its routing: the file RUN_ID.csv
// or SYSTEM_EXPERTS.csv in `routing_folder` is used if it exists. `cluster` is as in case_of().
// Runs that cannot be predicted are refused, with the reason.
std::vector<Comparison> comparisons_of_layers(const std::vector<Sample>& samples,
                                              const std::string& routing_folder = "",
                                              const std::string& cluster = "");

// Reads a path by its content: a run folder, imported measurements (recorded routing is looked up
// in the folder routing/ beside them), or a table of cases, some of which may be refused. Predicts
// nothing.
std::vector<Comparison> read_comparisons(const std::string& path, const std::string& cluster,
                                         const std::string& framework = "");

// Predicts every comparison that was not refused. A case that prediction refuses keeps the reason,
// and the others go on.
void predict_all(std::vector<Comparison>& comparisons, const Progress& progress = {});

}  // namespace stepcast
