// What each difference between two configurations costs: plain values that waterfall() fills and
// reports print.
#pragma once

#include <string>
#include <vector>

#include "model/base/units.h"

namespace stepcast {

struct KeyChange {
    std::string key, from, to;  // texts as for --set
    friend bool operator==(const KeyChange&, const KeyChange&) = default;
};

// Keys that are changed together, because one without the others is no legal experiment or because
// they are too many to tell apart.
struct WaterfallBar {
    std::string group;  // "the machine"; "" if the keys are named one by one
    std::vector<KeyChange> keys;
    Seconds cost;  // what they add to the step
    friend bool operator==(const WaterfallBar&, const WaterfallBar&) = default;
};

struct WaterfallEnd {
    std::string name;
    Seconds step;      // forecast
    Seconds measured;  // 0 = not known
    friend bool operator==(const WaterfallEnd&, const WaterfallEnd&) = default;
};

// from.step plus the costs of all bars is to.step. With what was measured, `unexplained` is the
// difference that the forecasts leave.
struct Waterfall {
    WaterfallEnd from, to;
    std::vector<WaterfallBar> bars;         // the largest first
    std::vector<KeyChange> follows;         // data-parallel replicas, which the other keys set
    std::vector<KeyChange> without_effect;  // on the step, at either end
    Seconds unexplained;
    // distance to p10 and p90 of the logarithm of to.step / from.step
    double reach = 0;
    long simulated = 0;  // experiments
    friend bool operator==(const Waterfall&, const Waterfall&) = default;
};

// What is shown as the end of a waterfall: the measured step, or without one the forecast.
inline Seconds shown_step(const WaterfallEnd& end) {
    return end.measured > Seconds(0) ? end.measured : end.step;
}

}  // namespace stepcast
