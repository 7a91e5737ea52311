// The verbs simulate, compare and calibrate up to what they print and write, for the program and for Python.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cases/cases.h"
#include "cli/arguments.h"
#include "model/answers/gantt.h"
#include "model/answers/kernel_comparison.h"
#include "model/progress.h"
#include "reports/chrome_trace.h"
#include "reports/compare.h"
#include "reports/tables.h"
#include "sim/explain/explain.h"
#include "sim/predict.h"

namespace stepcast {

struct SimulateQuestion {
    struct Column {
        std::string label;  // "" where it is the only one
        Experiment experiment;
    };
    std::vector<Column> columns;
    std::optional<Training> training;
    bool explained = false;
};
// Throws ConfigError on what cannot be read, be written, or be together.
SimulateQuestion simulate_question(const Options& options);

struct SimulateAnswer {
    std::vector<ForecastColumn> columns;
    std::vector<Gantt> pictures;           // where they are asked for
    std::optional<Explanation> why;        // of a lone forecast
    std::optional<Prediction> prediction;  // the same
};
SimulateAnswer answer(const SimulateQuestion& question, bool pictures);

std::string json_of(const SimulateAnswer& answer);
std::string text_of(const SimulateAnswer& answer);

// The predicted step as a trace, with what stands in its file next to the spans.
struct PredictedTrace {
    Trace trace;
    TraceExtras extras;
};
PredictedTrace predicted_trace(const Experiment& experiment, const Prediction& prediction);

// What --out writes; the answer has its pictures.
void write_simulated(const std::string& folder, const SimulateQuestion& question, const SimulateAnswer& answer);

// Inputs read, every case predicted.
struct Compared {
    std::vector<Comparison> comparisons;
    KernelComparisons kernels;
    CompareSummary summary;
    bool steps;  // whether the inputs hold steps, or kernels alone
};
// Throws ConfigError on names and files that are wrong; single cases that are refused are in what it returns.
Compared compare_inputs(const Options& options, const Progress& progress);

// Throws ConfigError where nothing could be predicted, or with --strict not all.
void require_predicted(const Compared& compared, bool strict);

// Whether the inputs are a profiler's traces; then they are compared, with the forecast of --model or with what follows from
// their own kernel tables, and printed.
bool compare_traces(const Options& options);

// This machine measured, or recorded measurements fitted. Writes what is asked for; returns what to print, "" in a process that
// does not report. Throws ConfigError, DeviceError.
std::string calibrate(const Options& options, const Progress& progress);

// The same with --device cuda: the sweeps, their tables next to --out, the fit and its plots, one after another; and with
// --device host, all ranks at once, with a plot of the curves and rates and their fits.
std::string calibrate_cuda(const Options& options, const Progress& progress);
std::string calibrate_host(const Options& options, const Progress& progress);

}  // namespace stepcast
