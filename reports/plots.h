// Plots as PNG and SVG; every title says how many cases it shows, and of how many.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/cases.h"

namespace stepcast {

// All write PATH.png and PATH.svg and throw ConfigError when gnuplot cannot.

// Predicted against measured step, log-log: diagonal, 5 % and 10 % bands, p10..p90 bars, one colour per series.
void plot_scatter(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

// Step against Case::x (experts) per series: p50 with its p10..p90 band, measured medians as points. Cases without a
// position are not shown and counted as missing in the title.
void plot_against_experts(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

// One stacked bar a case, the six parts of the breakdown, with the measured step as a marker.
void plot_breakdown(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

// Measured points and a curve through or beside them, log-log: calibration sweeps.
struct CurvePlot {
    std::string name;
    std::vector<std::pair<double, double>> measured, fitted;
};
void plot_curves(const std::vector<CurvePlot>& curves, const std::string& title, const std::string& x_label,
                 const std::string& y_label, const std::string& path);

}  // namespace stepcast
