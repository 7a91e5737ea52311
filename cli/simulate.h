// The verb simulate without its printing, for the program and for Python.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "reports/chrome_trace.h"
#include "reports/forecast_tables.h"
#include "reports/page.h"
#include "sim/own_steps.h"
#include "sim/predict.h"
#include "sim/results/allocator_forecast.h"
#include "sim/results/campaign.h"
#include "sim/results/explanation.h"
#include "sim/results/gantt.h"
#include "sim/results/lever.h"

namespace stepcast {

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

}  // namespace stepcast
