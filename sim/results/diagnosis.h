// Why a run is slower than its forecast: plain values that diagnose() fills and reports print.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/results/forecast.h"

namespace stepcast {

// One thing that was measured, and how well a cause agrees with it.
struct Witness {
    std::string what;    // "the step", "gradient sync", "single steps"
    std::string found;   // what was measured, and what the cause says
    double favours = 0;  // logarithm of its likelihood under this cause over that under all
    friend bool operator==(const Witness&, const Witness&) = default;
};

struct SuspectedCause {
    std::string name, what, test, remedy;
    double minutes = 0;      // that the test takes
    double probability = 0;  // among the causes that explain the same part of the gap
    Seconds costs;           // what it adds to a step, if it is the cause
    Seconds without;         // what the step would be without it
    double severity = 1;     // the likeliest
    bool in_some_steps = false;
    bool stated = false;  // by the configuration: it is there, and the forecast has it
    std::vector<Witness> witnesses;
    friend bool operator==(const SuspectedCause&, const SuspectedCause&) = default;
};

inline constexpr std::string_view nothing_at_all = "nothing at all";

// What the single steps of a run look like.
struct StepPattern {
    int steps = 0;          // 0: not known, or fewer than five
    Seconds quiet;          // a step that nothing interrupts
    double slow_share = 0;  // of the steps
    double lost = 0;        // mean over quiet step, less 1
    bool regular = false;   // slow steps come at equal distances
    double every = 0;       // their mean distance, in steps
    friend bool operator==(const StepPattern&, const StepPattern&) = default;
};

struct Diagnosis {
    enum class Verdict { nothing_wrong, likely, cannot_tell, too_fast };
    Verdict verdict = Verdict::nothing_wrong;
    std::string run;
    Seconds measured;   // mean step
    Interval forecast;  // p10: tuned; p50: typical
    StepPattern pattern;
    double probability_of_nothing = 0;  // that the quiet step is as forecast
    double probability_of_no_pattern = 0;
    std::vector<SuspectedCause> causes;  // likeliest and costliest first
    // which of them, nothing_at_all among them, explain the first's part of the gap about as well
    std::vector<std::string> alike;
    std::vector<std::string> together;  // two causes that are there at once, likelier than not
    std::vector<std::string> notes;
    friend bool operator==(const Diagnosis&, const Diagnosis&) = default;
};

}  // namespace stepcast
