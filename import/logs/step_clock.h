// Step times of logs whose lines tell the time since the run began, not that of a step.
#pragma once

#include <optional>

namespace stepcast {

// What lies between two lines of one step (validation) belongs to none. Clocks count whole seconds,
// so a value is the mean over the steps in which they move by 20: to 5 %. A mean over all steps so
// far, where the log has one, is exact, unless the run was resumed: then it is of fewer steps than
// the line names, and the clock counts alone.
class StepClock {
public:
    // Of the steps since the last value; none if the clock has not moved enough.
    std::optional<double> take(int step, double clock, std::optional<double> mean);
    // Of the steps since the last value at the end of a run that had none.
    [[nodiscard]] std::optional<double> rest() const;
    // A clock that goes back is of another run.
    [[nodiscard]] bool goes_back(double clock) const { return step_ >= 0 && clock < clock_ - 1; }

private:
    int step_ = -1;
    double clock_ = 0, time_ = 0;  // as stated; as precisely as it is known
    bool exact_ = true, valued_ = false;
    double passed_ = 0;  // since the last value,
    int steps_ = 0;      // in so many steps
};

}  // namespace stepcast
