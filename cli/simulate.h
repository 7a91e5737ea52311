// The verb simulate up to what it prints and writes, for the program and for Python.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "reports/tables.h"
#include "sim/explain/explain.h"
#include "sim/gantt.h"
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

// What --out writes; the answer has its pictures.
void write_simulated(const std::string& folder, const SimulateQuestion& question, const SimulateAnswer& answer);

}  // namespace stepcast
