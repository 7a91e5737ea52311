// What intervals rest on: how far measured steps lie from forecasts, by framework and device, with whole blocks left out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calibrate/few_shot.h"
#include "model/machine/scatter.h"

namespace stepcast {

// A measured step next to its forecast.
struct ScatterRow {
    Case what;
    Forecast forecast;
    double off = 0;  // log(measured / forecast)
};

// Of every row of the tables that states a step and can be predicted, each on the device and in the framework that it names.
std::vector<ScatterRow> scatter_rows(const std::vector<std::string>& measurements, const Progress& progress = {});

// From the rows whose flag is set. Of a framework on a device: the widths beyond which a tenth of its rows lie on either side
// of what the doubt about constants and readings says already. Frameworks: quantiles of their medians. Pairs: the differences
// of rows of one model in one framework on as many ranks of one device, each model counted once.
ScatterTable fit_scatter(const std::vector<ScatterRow>& rows, const std::vector<bool>& used);

// How far a framework whose costs were fitted to the rows of one model is off on other models, begun at the one that nobody named: the ends
// beyond which a tenth lies on either side, each framework counted once.
Scatter few_shot_scatter(const std::vector<std::string>& measurements);

// The interval that the table gives a row.
Interval interval_by(const ScatterTable& table, const ScatterRow& row);

// Each block's rows by a table that was fitted to the others: how often its intervals hold. The constants stay the shipped
// ones, so that errors are those of the forecasts as they are.
std::vector<BlockErrors> leave_out_scatter(const std::vector<ScatterRow>& rows, LeftOut by);

// Writes the table to `out` and says what it holds.
std::string calibrate_scatter(const std::vector<std::string>& measurements, const std::string& out,
                              const std::string& date, const Progress& progress = {});
// Prints the blocks left out; writes nothing.
std::string cross_validate_scatter(const std::vector<std::string>& measurements, LeftOut by,
                                   const Progress& progress = {});

}  // namespace stepcast
