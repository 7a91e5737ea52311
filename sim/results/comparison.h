// A measured training configuration beside its forecast.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/records/measurements.h"
#include "sim/as_run.h"
#include "sim/results/forecast.h"
#include "sim/results/traced_step.h"

namespace stepcast {

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
    Circumstances circumstances;  // who ran it
    std::vector<std::string> assumptions;
    Seconds measured_step;  // 0 = not known, which only refused rows may have
    std::optional<Seconds> measured_forward, measured_backward;
    std::optional<Seconds> measured_mean;        // mean step, where the log gives single steps
    std::vector<MeasuredPhase> measured_phases;  // beyond forward and backward
    // the single steady steps, where the log keeps them
    std::vector<Seconds> recorded_steps;
    std::optional<Bytes> measured_peak;  // memory of the rank that uses most
    bool measured_reserved = false;      // it is what the allocator reserved
    // own runs: one per task of the unfolded step; else empty
    std::vector<Seconds> measured_durations;
    int measured_sequences = 0;  // of a step, as a log states them; 0 = not stated
    // hashes of the measured rows behind it (model/records/provenance.h)
    std::vector<RowHash> rows;
    // of a table's row: the hash of its cells; 0 = none
    RowHash cells = 0;
    // whether a fit has read those rows; empty = not looked up
    std::optional<Evidence> evidence;
};

struct Comparison {
    Case what;
    std::optional<Forecast> forecast;             // empty: refused
    std::optional<ErrorAttribution> attribution;  // own runs only
    std::string refused_because;
};

}  // namespace stepcast
