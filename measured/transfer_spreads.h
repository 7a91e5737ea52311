// Errors of forecasts for a machine without measurements, from leaving out each measured machine in
// turn, as data (model/presets/transfer.toml, written by `calibrate --cross-validate device
// --out`).
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace stepcast {

// Standard deviations of the logarithm of forecast over measured that leave a fifth of the rows
// outside p10 to p90, by class of kernels, on the worst predicted machine. `alike`: another
// measured machine has its fabric and generation; `alone`: none has.
struct TransferSpreads {
    std::map<std::string, double> alike, alone;
    friend bool operator==(const TransferSpreads&, const TransferSpreads&) = default;
};

// "products", "attention", "experts", "casts", "dispatch" or "collectives".
std::string transfer_class(std::string_view kind);
double transfer_spread(std::string_view kind, bool alike);  // from the shipped file

// throws ConfigError with file:line:column
TransferSpreads read_transfer_spreads(const std::string& path);
std::string write_transfer_spreads(const TransferSpreads& spreads, const std::string& date);

}  // namespace stepcast
