// Plots as PNG and SVG; every title says how many cases it shows, and of how many.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// All write PATH.png and PATH.svg and throw ConfigError when gnuplot cannot. `expected` is how many cases the caller
// set out with, when that is more than the comparisons; a plot of fewer says "only N of M" in its title.

// Predicted against measured step, log-log where the range asks: diagonal, 5 % and 10 % bands, p10..p90 bars, one
// colour a source, or a series where all cases are of one source.
void plot_scatter(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path,
                  std::size_t expected = 0);

// Step against Case::x (experts) per series: p50 with its p10..p90 band, measured medians as points. Cases with
// recorded routing are a line of their own. Cases without a position are not shown and counted as missing.
void plot_against_experts(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path,
                          std::size_t expected = 0);

// One stacked bar a case, the six parts of the breakdown, with the measured step as a marker; of more than 48 cases those
// with the largest errors, in their order.
void plot_breakdown(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path,
                    std::size_t expected = 0);

// Every plot that these cases allow, as scatter, breakdown, experts and attribution under `folder`; titles begin with `title`.
// Returns the PNG names within the folder: none when no case was predicted, no experts when no case has a position.
std::vector<std::string> plot_comparison(const std::vector<Comparison>& comparisons, const std::string& title,
                                         const std::string& folder, std::size_t expected = 0);

// Measured points and a curve through or beside them, log-log: calibration sweeps. Points at or below 0 cannot be
// shown; the title says how many.
struct CurvePlot {
    std::string name;
    std::vector<std::pair<double, double>> measured, fitted;
};
void plot_curves(const std::vector<CurvePlot>& curves, const std::string& title, const std::string& x_label,
                 const std::string& y_label, const std::string& path);

}  // namespace stepcast
