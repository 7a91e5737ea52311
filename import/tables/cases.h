// The format that what-if tables, published tables and own runs share: one training configuration
// per row, with its measured step. docs/files.md describes the columns.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/records/measurements.h"
#include "sim/results/comparison.h"

namespace stepcast {

// A row as read, keyed by column name. Unknown columns are refused; missing ones are empty.
struct CaseRow {
    std::string file;
    int line = 0;
    std::map<std::string, std::string> cells;
    [[nodiscard]] const std::string& cell(const std::string& column) const;
};
std::vector<CaseRow> read_cases(const std::string& path);  // throws ConfigError with file:line

// The experiment of a row. If `model` names a preset experiment, the row's cells override that
// preset; otherwise the row's columns describe a transformer. `cluster` overrides the row's gpu
// column, `framework` its framework (import/tables/shelf.h). Throws ConfigError when the row cannot
// be predicted.
Case case_of(const CaseRow& row, const std::string& cluster, const std::string& framework = "");

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

}  // namespace stepcast
