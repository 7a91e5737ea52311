#include "import/logs/step_clock.h"

#include <cmath>

namespace stepcast {

std::optional<double> StepClock::take(int step, double clock, std::optional<double> mean) {
    constexpr double enough = 20;  // seconds
    const bool exact = mean && std::abs(*mean * step - clock) <= 1;
    const double time = exact ? *mean * step : clock;
    const bool first = step_ < 0;
    if (!first && step > step_) {
        passed_ += time - time_;
        steps_ += step - step_;
        exact_ = exact_ && exact;
    } else if (first) {
        exact_ = exact;
    }
    step_ = step;
    clock_ = clock;
    time_ = time;
    if (steps_ == 0 || !(exact_ || passed_ >= enough)) return std::nullopt;
    const double value = passed_ / steps_;
    passed_ = 0;
    steps_ = 0;
    exact_ = exact;
    valued_ = true;
    return value;
}

std::optional<double> StepClock::rest() const {
    if (valued_ || steps_ == 0 || passed_ <= 0) return std::nullopt;
    return passed_ / steps_;
}

}  // namespace stepcast
