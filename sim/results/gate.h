// Whether a run is slower than its history: plain values that judge_run() fills and reports print.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/results/forecast.h"

namespace stepcast {

struct GateRun {
    std::string name;
    std::vector<Seconds> steps;  // single steps, in order, without warm-up
    // medians of what a log times beside the step, by name
    std::vector<std::pair<std::string, Seconds>> phases = {};
    friend bool operator==(const GateRun&, const GateRun&) = default;
};

// A phase that the run and its history time.
struct MovedPhase {
    std::string name;
    Seconds now, usual;
    friend bool operator==(const MovedPhase&, const MovedPhase&) = default;
};

struct GateAnswer {
    enum class Verdict { pass, fail, cannot_tell };
    Verdict verdict = Verdict::cannot_tell;
    std::string run = {}, because = {};
    int steps = 0, runs = 0;         // of the run; runs of its history
    Seconds level = {}, usual = {};  // typical quiet step of the run and of its history
    double slower = 0;               // level over usual, less 1
    double bound = 0;                // slower than this is a failure
    double false_alarms = 0.01;      // chance that a run as before fails
    double seen = 0;                 // a run slower by this fails in 90 of 100 cases
    int steps_for_tolerance =
        0;  // with how many steps a run slower by `tolerance` would; 0 = never
    double tolerance = 0.03;
    std::vector<MovedPhase> phases = {};  // that which moved most first
    Interval forecast = {};               // of the run's configuration; 0 = none
    friend bool operator==(const GateAnswer&, const GateAnswer&) = default;
};

}  // namespace stepcast
