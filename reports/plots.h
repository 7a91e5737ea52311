// Plots, as PNG and SVG, of what the other reports show in tables. All write PATH.png and PATH.svg
// and throw ConfigError when gnuplot fails. If there is nothing to plot, those that return bool
// write nothing and return false, and the others throw. Every title says how many cases are shown,
// "only N of M" if not all are.
#pragma once

#include <string>
#include <vector>

#include "sim/results/comparison.h"
#include "sim/results/explanation.h"
#include "sim/results/fit_points.h"
#include "sim/results/gantt.h"
#include "sim/results/kernel_comparison.h"
#include "sim/results/sweep_answer.h"

namespace stepcast {

// Predicted against measured step, log-log if the range is wide: diagonal, 5 % and 10 % bands,
// p10..p90 bars; one colour per source, or per series if all cases have one source.
bool plot_scatter(const std::vector<Comparison>& comparisons, const std::string& title,
                  const std::string& path);

// Step against Case::x (experts) for each series: p50 with its p10..p90 band, measured medians as
// points. Cases with recorded routing are a separate line. Cases without a position are not shown
// and count as missing.
bool plot_against_experts(const std::vector<Comparison>& comparisons, const std::string& title,
                          const std::string& path);

// One stacked bar per case: the six parts of the breakdown, with the measured step as a marker. Of
// more than 48 cases, those with the largest errors, in the order of the cases.
bool plot_breakdown(const std::vector<Comparison>& comparisons, const std::string& title,
                    const std::string& path);

// Every plot that these cases allow under `folder`: scatter, errors, breakdown, experts and
// attribution; titles begin with `title`. Returns the PNG names within the folder: none if no case
// was predicted, no experts if no case has a position.
std::vector<std::string> plot_comparison(const std::vector<Comparison>& comparisons,
                                         const std::string& title, const std::string& folder);

// For calibration sweeps: measured points and their fitted curves, log-log. Points at or below 0
// are not shown; the subtitle says how many.
void plot_curves(const std::vector<FittedCurve>& curves, const std::string& title,
                 const std::string& x_label, const std::string& y_label, const std::string& path);

// Fitted / measured against the fitted time, both logarithmic: a perfect law lies on the line at 1.
// One colour per kind of op.
void plot_fit(const std::string& title, const std::vector<CaseResult>& points,
              const std::string& cluster, const std::string& path);

}  // namespace stepcast
