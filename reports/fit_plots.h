// Measured points beside what the fitted law says of them.
#pragma once

#include <string>
#include <vector>

#include "model/units.h"

namespace stepcast {

struct FitPoint {
    std::string kind;
    Seconds measured, fitted;
    friend bool operator==(const FitPoint&, const FitPoint&) = default;
};
struct FitPlot {
    std::string kind;
    std::vector<FitPoint> points;
    friend bool operator==(const FitPlot&, const FitPlot&) = default;
};

// Fitted over measured against the fitted time, both logarithmic: a perfect law lies on the line at 1. One colour
// a kind of op. Writes PATH.png and PATH.svg; throws ConfigError without points or gnuplot.
void plot_fit(const FitPlot& plot, const std::string& cluster, const std::string& path);

}  // namespace stepcast
