// Why a predicted step is off: the prices of its tasks, or how they follow each other.
#pragma once

#include <string>
#include <vector>

#include "model/graph/op.h"
#include "model/graph/trace.h"

namespace stepcast {

// The tasks of one op kind in one phase on the rank that ends last: their durations summed, and what the step would
// gain or lose if only they took what the cost model says.
struct KindError {
    std::string kind;  // kind_name()
    Phase phase = Phase::forward;
    Seconds predicted, measured;
    Seconds effect;
    friend bool operator==(const KindError&, const KindError&) = default;
};

// The step simulated twice: `predicted` with the cost model, `replayed` with the measured duration of every task.
// What separates these two is the cost error; what separates the replay from the measured step is the schedule error:
// waits, host time between tasks and skew that the engine does not know.
struct ErrorAttribution {
    Seconds predicted, replayed, measured;
    std::vector<KindError> kinds;  // largest effect first
    friend bool operator==(const ErrorAttribution&, const ErrorAttribution&) = default;
};
// Both relative to the measured step; they add up to the relative error of `predicted`.
inline double cost_error(const ErrorAttribution& a) { return (a.predicted - a.replayed) / a.measured; }
inline double schedule_error(const ErrorAttribution& a) { return a.replayed / a.measured - 1; }

}  // namespace stepcast
