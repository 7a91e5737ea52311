// Plots as PNG and SVG, of what the other reports tell in tables. All write PATH.png and PATH.svg and throw ConfigError when
// gnuplot cannot; where there is nothing to plot, those that return bool write nothing and return false, the others throw too.
// Every title says how many cases it shows, "only N of M" where they are fewer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cases/cases.h"
#include "model/answers/explanation.h"
#include "model/answers/fit_points.h"
#include "model/answers/gantt.h"
#include "model/answers/kernel_comparison.h"
#include "model/answers/sweep_answer.h"
#include "model/units.h"

namespace stepcast {

// Predicted against measured step, log-log where the range asks: diagonal, 5 % and 10 % bands, p10..p90 bars, one
// colour a source, or a series where all cases are of one source.
bool plot_scatter(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

// Step against Case::x (experts) per series: p50 with its p10..p90 band, measured medians as points. Cases with
// recorded routing are a line of their own. Cases without a position are not shown and counted as missing.
bool plot_against_experts(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

// One stacked bar a case, the six parts of the breakdown, with the measured step as a marker; of more than 48 cases those
// with the largest errors, in their order.
bool plot_breakdown(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

// Every plot that these cases allow, as scatter, breakdown, experts and attribution under `folder`; titles begin with `title`.
// Returns the PNG names within the folder: none when no case was predicted, no experts when no case has a position.
std::vector<std::string> plot_comparison(const std::vector<Comparison>& comparisons, const std::string& title,
                                         const std::string& folder);

// Measured points and a curve through or next to them, log-log: calibration sweeps. Points at or below 0 cannot be
// shown; the title says how many.
void plot_curves(const std::vector<FittedCurve>& curves, const std::string& title, const std::string& x_label,
                 const std::string& y_label, const std::string& path);

// Predicted over measured minus 1, in percent, of every predicted case: against the measured step and against the length of
// the sequences, one colour a framework (source, or series of one source), marks by what the forecast shows. Errors beyond
// the picture stand at its edge: where a diagonal on logarithmic axes hides 10 %.
bool plot_errors(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

// Where the error of own runs comes from. A stacked bar a run, in percent of its measured step, up what makes the prediction too slow and down what makes it
// too fast: each op kind and phase, what the kinds do together, and the schedule. The black line is the whole error.
bool plot_attribution(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

// What more of each parameter of the cluster does to the step: one bar a parameter, the strongest of them, simulated again;
// marks: along the critical path.
void plot_elasticities(const Explanation& explanation, const std::string& title, const std::string& path);

// The static picture of a step: slots of each rank with their micro-batch, exposed collectives, idle time hatched, and the
// memory of one rank below it. Several stand one below the other on one axis of time.
void plot_gantts(std::span<const Gantt> gantts, const std::string& path);

// Of a sweep: the best step of each pair of values: colour and, where there is room, number. None of more cells than can be read.
bool plot_heat_map(const SweepAnswer& result, const std::string& path);

// The front that was found, with both objectives on their axes.
bool plot_front(const SweepAnswer& result, const std::string& path);

// Tokens/s against ranks with the p10..p90 of each prediction, next to what proportional growth from the smallest would be.
bool plot_scaling(const SweepAnswer& result, const std::string& path);

// Every plot that the sweep allows; returns the PNG names within the folder.
std::vector<std::string> plot_sweep(const SweepAnswer& result, const std::string& folder);

// A sweep over systems or machines: a line with its band for each, against a number that varies too, of which one has two.
bool plot_series(const SweepAnswer& result, const std::string& path);

// Measured kernels next to the laws' forecasts, under `folder`: kernel_times (measured against predicted), of several devices also
// devices (medians by kind), kernel_error (predicted over measured against the measured time, one colour a kind, rows of the
// fit hollow), roofline (rates of the measured kernels with arithmetic against their intensity, both relative to the device's peak and
// ridge), and for each device with collectives bus_bandwidth_DEVICE (against the payload: points measured, lines predicted).
// Returns the PNG names within the folder.
std::vector<std::string> plot_kernels(const KernelComparisons& kernels, const std::string& title,
                                      const std::string& folder);

// Fitted over measured against the fitted time, both logarithmic: a perfect law lies on the line at 1. One colour
// a kind of op.
void plot_fit(const std::string& title, const std::vector<CaseResult>& points, const std::string& cluster, const std::string& path);

}  // namespace stepcast
