// How far forecasts of a machine without measurements are off: what leaving each measured one out in turn shows, as data
// (model/presets/transfer.toml, written by `calibrate --cross-validate device --out`).
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace stepcast {

// Standard deviations of the logarithm of forecast over measured that leave a fifth of the rows outside of p10 .. p90, by class of
// kernels; of machines that have a like one among the measured (model/machine/priors.h), and of the others.
struct TransferSpreads {
    std::map<std::string, double> alike, alone;
    friend bool operator==(const TransferSpreads&, const TransferSpreads&) = default;
};

// "products", "attention", "experts", "casts", "dispatch" or "collectives".
std::string transfer_class(std::string_view kind);
double transfer_spread(std::string_view kind, bool alike);  // of the shipped file

TransferSpreads read_transfer_spreads(const std::string& path);  // throws ConfigError with file:line:column
std::string write_transfer_spreads(const TransferSpreads& spreads, const std::string& date);

}  // namespace stepcast
