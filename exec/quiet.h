// Was the machine quiet enough for the clock to mean something? Judgement only, on numbers measured elsewhere.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/units.h"

namespace stepcast {

struct QuietLimits {
    double idle_share = 0.95;      // idle ticks over the second before the run, at least
    double cpu_share = 0.97;       // thread CPU time / wall time of every rank during a sample, at least
    double rejected_share = 0.30;  // samples below that, at most
};

struct RetryLimits {
    int extra_steps = 20;             // samples beyond those asked for
    Seconds wall_time = Seconds(30);  // no extra sample starts later than this after the first sample
};

bool accepts(double cpu_share, const QuietLimits& limits);

// Whether another sample is worth taking, to reach `wanted` accepted ones.
bool wants_another(int wanted, int accepted, int taken, Seconds spent, const RetryLimits& limits);

struct QuietVerdict {
    bool quiet = true;
    std::vector<std::string> warnings;
    friend bool operator==(const QuietVerdict&, const QuietVerdict&) = default;
};
QuietVerdict judge_quiet(double idle_share, std::span<const double> cpu_shares, const QuietLimits& limits);

}  // namespace stepcast
