// How far measured steps lie from forecasts that had not seen them: by framework and device. Data
// (model/presets/scatter.toml), written by `calibrate --fit scatter` from tables of measured steps.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/framework.h"

namespace stepcast {

inline constexpr double p90_of_normal = 1.2815515655446004;
// Of Student's t, of 2 and more degrees of freedom to 0.1 % (Abramowitz and Stegun 26.7.5).
double student_p90(double freedom);

// Logarithms of forecast over p10, and of p90 over forecast: in addition to what the doubt about single constants explains.
struct Scatter {
    KEY(double, faster, 0, "to p10");
    KEY(double, slower, 0, "to p90");
    friend bool operator==(const Scatter&, const Scatter&) = default;
};

struct GroupScatter {
    KEY(std::string, framework, {}, "of the steps");
    KEY(std::string, gpu, {}, "their device");
    KEY(int, rows, 0, "steps");
    KEY(int, blocks, 0, "models");
    KEY_IN(scatter, faster, "faster", "to p10");
    KEY_IN(scatter, slower, "slower", "to p90");
    Scatter scatter;
    friend bool operator==(const GroupScatter&, const GroupScatter&) = default;
};

// Of the error of one configuration over another's of the same model: at p10 and p90 of configurations that spend their
// step alike, and what is added (squares) for each unit of distance between their shares of a step by kind of work.
struct PairScatter {
    KEY(double, near, 0, "of configurations that spend their step alike");
    KEY(double, far, 0, "added for each unit of distance");
    friend bool operator==(const PairScatter&, const PairScatter&) = default;
};

struct ScatterTable {
    KEY(std::string, date, {}, "of the fit");
    KEY(std::vector<std::string>, sources, {}, "files of measured steps");
    KEY(Scatter, frameworks, {}, "how far the medians of frameworks lie apart");
    KEY(Scatter, few_shot, {}, "other models' steps in a framework whose costs were fitted to steps of one");
    KEY(PairScatter, pairs, {}, "");
    KEY_NAMED(std::vector<GroupScatter>, groups, {}, "group", "");
    friend bool operator==(const ScatterTable&, const ScatterTable&) = default;
};

ScatterTable read_scatter(const std::string& path);  // throws ConfigError with file:line:column
std::string write_scatter(const ScatterTable& table);
const ScatterTable& shipped_scatter();  // read once; an empty one where there is no file

// What a fit calls the numbers of ranks that its rows ran on, among its ranges.
inline constexpr const char* ranks_range = "ranks";
// How a fit records errors of blocks that it left out ("left out by model (3)"), and how many those were: 0 of any other method,
// 2, the least, where no number is recorded.
std::string left_out_by(std::string_view what, std::size_t blocks);
int left_out_blocks(std::string_view method);

// Of steps in a framework on a device: what the device's own fit left (cluster.noise.step), what frameworks differ by unless it is
// "native" and, the more blocks there are, what steps of both have shown, or what the framework's own fit left of blocks left out; of other
// models or ranks than those fitted, where none could be left out, what such fits were off.
Scatter scatter_of(const ScatterTable& table, const Framework& framework, const Cluster& cluster);

// How far forecasts of a machine without measurements are off: what leaving each measured one out in turn shows, as data
// (model/presets/transfer.toml, written by `calibrate --cross-validate device --out`).

// Standard deviations of the logarithm of forecast over measured that leave a fifth of the rows outside of p10 .. p90, by class of
// kernels, on the machine that is foretold worst; of machines with one of their fabric and generation among the measured, and of the others.
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
