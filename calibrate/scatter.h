// The basis of forecast intervals: how far measured steps lie from forecasts, by framework and
// device; tested with blocks left out.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/left_out.h"
#include "model/base/progress.h"
#include "sim/scatter.h"

namespace stepcast {

// A measured step next to its forecast.
struct ScatterRow {
    Case what;
    Forecast forecast;
    double off = 0;  // log(measured / forecast)
    // ends of its interval by width and side, of these doubts: each source that is left out asks
    // for the same ones again
    struct KnownEnds {
        Doubts doubts;
        std::map<std::pair<double, bool>, double> ends;
    };
    mutable KnownEnds known = {};
};

// All rows of the tables that state a step and can be predicted, each on the device and in the
// framework that it names.
std::vector<ScatterRow> scatter_rows(const std::vector<std::string>& measurements,
                                     const Progress& progress = {});

// Fits the table to the rows with a flag in `used`. For each framework on a device: the widths
// beyond which a tenth of its rows lie on either side, on top of what the uncertainty of constants
// and readings already explains. For frameworks: quantiles of their medians. For pairs: differences
// between rows of one model in one framework on equally many ranks of one device, each model with
// the same weight.
ScatterTable fit_scatter(const std::vector<ScatterRow>& rows, const std::vector<bool>& used);

// How far off forecasts of other models are when a framework's costs were fitted to the rows of one
// model, starting from the default framework. Each end leaves a tenth of the rows beyond it on its
// side; each framework has the same weight.
Scatter few_shot_scatter(const std::vector<std::string>& measurements,
                         const std::vector<ScatterRow>& rows, const Progress& progress = {});

// The interval that the table gives a row.
Interval interval_by(const ScatterTable& table, const ScatterRow& row);

// Tests how often the intervals hold: the interval of each block's rows comes from a table that was
// fitted to the other rows. The constants stay the shipped ones, so the errors are those of the
// shipped forecasts.
std::vector<BlockErrors> leave_out_scatter(const std::vector<ScatterRow>& rows, LeftOut by);

// Writes the table to `out` and returns a description. Widths of fits to few steps stay the shipped
// ones: hundreds of simulations a row.
std::string calibrate_scatter(const std::vector<std::string>& measurements, const std::string& out,
                              const std::string& date, const Progress& progress = {});
// Writes the shipped table with new widths of fits to few steps.
std::string calibrate_few_shot_widths(const std::vector<std::string>& measurements,
                                      const std::string& out, const Progress& progress = {});
// Returns the table of leave_out_scatter(); writes nothing.
std::string cross_validate_scatter(const std::vector<std::string>& measurements, LeftOut by,
                                   const Progress& progress = {});

}  // namespace stepcast
