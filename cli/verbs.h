// The verbs simulate, compare and calibrate without their printing, for the program and for Python.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "import/tables/cases.h"
#include "model/base/progress.h"
#include "reports/chrome_trace.h"
#include "reports/compare.h"
#include "reports/pages.h"
#include "reports/tables.h"
#include "sim/explain/explain.h"
#include "sim/own_steps.h"
#include "sim/predict.h"
#include "sim/results/allocator_forecast.h"
#include "sim/results/gantt.h"
#include "sim/results/gate.h"
#include "sim/results/kernel_comparison.h"

namespace stepcast {

// The steps of a table (each beside its forecast, `plain`: as simulate makes it) or of a file that
// --save wrote. Throws ConfigError.
OwnSteps own_steps_of_file(const std::string& path, const Options& options, bool plain);
void add(OwnSteps& all, OwnSteps more);

struct SimulateQuestion {
    struct Column {
        std::string label;  // "" for a single column
        Experiment experiment;
    };
    std::vector<Column> columns;
    std::optional<Training> training;
    bool explained = false, replayed = false, levers = false;  // --explain, --memory, --levers
    bool tuned = false;  // run as the framework's published recipe
    OwnSteps own = {};   // of files; those of columns follow from `measured`
    std::vector<std::optional<Seconds>> measured = {};  // of the first columns
    std::string save = {};
};
// Throws ConfigError for options that cannot be read, written or combined.
SimulateQuestion simulate_question(const Options& options);

struct SimulateAnswer {
    std::vector<ForecastColumn> columns;
    std::vector<Gantt> pictures;     // if asked for
    std::optional<Explanation> why;  // for a single forecast
    std::optional<AllocatorForecast> memory;
    std::optional<std::vector<Lever>> levers;
    std::optional<Prediction> prediction;  // for a single forecast
};
SimulateAnswer answer(const SimulateQuestion& question, bool pictures);

std::string json_of(const SimulateAnswer& answer);
std::string text_of(const SimulateAnswer& answer);

// The predicted step as a trace, with the other contents of the trace file.
struct PredictedTrace {
    Trace trace;
    TraceExtras extras;
};
PredictedTrace predicted_trace(const Experiment& experiment, const Prediction& prediction);

// Writes the files of --out. The answer must have its pictures.
void write_simulated(const std::string& folder, const Invocation& program,
                     const SimulateQuestion& question, const SimulateAnswer& answer);

// The inputs as read, with every case predicted.
struct Compared {
    std::vector<Comparison> comparisons;
    KernelComparisons kernels;
    CompareSummary summary;
    bool steps;  // whether the inputs hold steps, and not only kernels
};
// Throws ConfigError for wrong names and files. Single cases that are refused are part of the
// result.
Compared compare_inputs(const Options& options, const Progress& progress);

// Throws ConfigError if nothing could be predicted, or with --strict if not everything could.
void require_predicted(const Compared& compared, bool strict);

// Returns whether the inputs are a profiler's traces. If so, compares them with the forecast of
// --model, or with a prediction from their own kernel tables, and prints the result.
bool compare_traces(const Options& options);

// What each difference between the two inputs costs, as text or JSON; writes the page of --out.
std::string waterfall_text(const Options& options);

// Why a run is slower than its forecast, as text or JSON; writes the page of --out.
std::string diagnosis_text(const Options& options);

// The only run of a log, a run folder or a table, or the one that is named (TABLE.csv:CASE). Throws
// ConfigError if it has no forecast.
Case one_case(const Options& options, const std::string& input);

// Whether the run is slower than its history; writes the file of --junit.
GateAnswer gate_answer(const Options& options);

// Measures this machine, or fits recorded measurements. Writes the files of --out and returns the
// text to print, "" in a process that does not report. Throws ConfigError, DeviceError.
std::string calibrate(const Options& options, const Progress& progress);

// With --device cuda: runs the sweeps, and writes their tables next to --out, the fit and its
// plots. With --device host: the same on all ranks at once, with a plot of the curves and rates and
// their fits.
std::string calibrate_cuda(const Options& options, const Progress& progress);
std::string calibrate_host(const Options& options, const Progress& progress);

}  // namespace stepcast
