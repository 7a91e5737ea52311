// Plots, as PNG and SVG, of what the other reports show in tables. All write PATH.png and PATH.svg
// and throw ConfigError when gnuplot fails. If there is nothing to plot, those that return bool
// write nothing and return false, and the others throw. Every title says how many cases are shown,
// "only N of M" if not all are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/base/units.h"
#include "sim/results/allocator_forecast.h"
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

// Relative error in percent of every predicted case, against the measured step and against the
// sequence length: on the logarithmic axes of a scatter plot the diagonal would hide 10 %. One
// colour per source (or per series of one source), point types by evidence. Errors beyond the
// picture are drawn at its edge.
bool plot_errors(const std::vector<Comparison>& comparisons, const std::string& title,
                 const std::string& path);

// Where the error of executed runs comes from: one stacked bar per run, in percent of its measured
// step. Parts that make the prediction too slow go up, parts that make it too fast go down: each op
// kind and phase, what the kinds do together, and the schedule. The black line is the total error.
bool plot_attribution(const std::vector<Comparison>& comparisons, const std::string& title,
                      const std::string& path);

// How the step changes with more of each cluster parameter: one bar per parameter, simulated again,
// for the strongest ones; marks show the change along the critical path.
void plot_elasticities(const Explanation& explanation, const std::string& title,
                       const std::string& path);

// A step over time: slots of each rank with their micro-batches, exposed collectives, idle time
// hatched, and one rank's memory below. Several steps are drawn one below the other on one time
// axis.
void plot_gantts(std::span<const Gantt> gantts, const std::string& path);

// Memory of the fullest stage over two steps, what lives at its fullest moment, and all stages.
void plot_memory(const AllocatorForecast& memory, const std::string& title,
                 const std::string& path);

// For a sweep: the best step of each pair of values, as a colour and, if there is room, a number.
// Nothing if there are too many cells.
bool plot_heat_map(const SweepAnswer& result, const std::string& path);

// The Pareto front, with both objectives on the axes.
bool plot_front(const SweepAnswer& result, const std::string& path);

// Tokens/s against ranks with the p10..p90 of each prediction, next to proportional growth from the
// smallest.
bool plot_scaling(const SweepAnswer& result, const std::string& path);

// Every plot that the sweep allows; returns the PNG names within the folder.
std::vector<std::string> plot_sweep(const SweepAnswer& result, const std::string& folder);

// A sweep over systems or machines: one line with its band for each, against a varied key with
// numbers, of which one line needs two.
bool plot_series(const SweepAnswer& result, const std::string& path);

// Plots of measured kernels and the laws' forecasts under `folder`. kernel_times: measured against
// predicted. devices, if there are several: median errors by kind. kernel_error: predicted over
// measured against the measured time, one colour per kind, fitted rows hollow. roofline: rates of
// measured kernels with arithmetic against their intensity, relative to the device's peak and
// ridge. bus_bandwidth_DEVICE, if it has collectives: against the payload, points measured, lines
// predicted. Returns the PNG names within the folder.
std::vector<std::string> plot_kernels(const KernelComparisons& kernels, const std::string& title,
                                      const std::string& folder);

// Fitted / measured against the fitted time, both logarithmic: a perfect law lies on the line at 1.
// One colour per kind of op.
void plot_fit(const std::string& title, const std::vector<CaseResult>& points,
              const std::string& cluster, const std::string& path);

}  // namespace stepcast
