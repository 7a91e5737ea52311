// Whether a run is slower than its history: plain values that judge_run() fills and reports print.
#pragma once

#include <string>
#include <vector>

#include "model/base/units.h"

namespace stepcast {

struct GateRun {
    std::string name;
    std::vector<Seconds> steps;  // single steps, in order, without warm-up
    friend bool operator==(const GateRun&, const GateRun&) = default;
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
    friend bool operator==(const GateAnswer&, const GateAnswer&) = default;
};

}  // namespace stepcast
