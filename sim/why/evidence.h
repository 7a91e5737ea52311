// How well what was measured agrees with what a cause says of it: logarithms of likelihoods.
#pragma once

#include <array>
#include <vector>

#include "sim/why/diagnose.h"

namespace stepcast {

inline constexpr std::array parts_of_step{&StepTimes::step, &StepTimes::forward,
                                          &StepTimes::backward, &StepTimes::gradient_sync,
                                          &StepTimes::optimizer};

// The interval's two widths, as a density of log(measured / expected).
struct StepError {
    double faster = 0.1, slower = 0.1;
    [[nodiscard]] double log_density(double x) const;
};
StepError error_of(const Interval& step);
// The same, as wide as the forecast of a sound run beside this one is off.
StepError error_of(const TriedCauses& tried);

// `best`: what the likelihood would be if all agreed.
struct Judged {
    double log_likelihood = 0, best = 0;
    std::vector<Witness> witnesses;
};

// Of whose phases it matters which rank logs.
bool is_of_few(SlowRanks ranks);

// How well one guess agrees with each thing that was measured. `step` is the quiet step, `memory`
// the cause's (two causes: their product over that of none).
Judged judge(const CauseGuess& guess, const TriedCause& memory, const TriedCauses& tried,
             const Observed& observed, Seconds step);

}  // namespace stepcast
