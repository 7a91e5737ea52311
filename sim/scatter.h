// How far measured steps lie from forecasts that had not seen them, by framework and device. Data
// (model/presets/scatter.toml), written by `calibrate --fit scatter` from tables of measured steps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/framework.h"

namespace stepcast {

inline constexpr double p90_of_normal = 1.2815515655446004;
double student_p90(double freedom);  // of Student's t

// Logarithms of forecast over p10, and of p90 over forecast, beyond what the uncertainty of single
// constants explains.
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
    KEY_NAMED(Scatter, scatter, {}, "", "");
    friend bool operator==(const GroupScatter&, const GroupScatter&) = default;
};

// Error of one configuration relative to another of the same model: `near` is the p10/p90 distance
// if both spend their step alike. `far` is added, in squares, per unit of distance between their
// shares of a step by kind of work.
struct PairScatter {
    KEY(double, near, 0, "of configurations that spend their step alike");
    KEY(double, far, 0, "added for each unit of distance");
    friend bool operator==(const PairScatter&, const PairScatter&) = default;
};

// How steps of those who follow no published recipe lie from forecasts of what frameworks' files
// describe. Their middle is no better known: no shift of p50 by other sources brought forecasts of
// a source left out nearer (docs/model.md).
struct ClassScatter {
    KEY(std::string, name, {},
        "who ran the steps, or whether their framework is named; of a trait what is true of them");
    KEY(int, rows, 0, "steps");
    KEY(int, sources, 0, "tables and threads that they are from, each with the same weight");
    KEY_NAMED(Scatter, scatter, {}, "", "");
    friend bool operator==(const ClassScatter&, const ClassScatter&) = default;
};

// What nodes of users who do not state their network reach together.
struct NetworkPrior {
    KEY(BytesPerSecond, rate, BytesPerSecond(0), "of a node, as likely as not");
    KEY(BytesPerSecond, slow, BytesPerSecond(0), "of a node, the slow end");
    friend bool operator==(const NetworkPrior&, const NetworkPrior&) = default;
};

// How far measured peaks of memory lie from forecasts: standard deviations of the logarithm.
struct MemoryScatter {
    KEY(double, measured, 0, "of frameworks whose peaks were measured");
    KEY(double, other, 0, "of other frameworks: a source of peaks left out");
    KEY(std::vector<std::string>, frameworks, {}, "whose peaks were measured");
    friend bool operator==(const MemoryScatter&, const MemoryScatter&) = default;
};

struct ScatterTable {
    KEY(std::string, date, {}, "of the fit");
    KEY(std::vector<std::string>, sources, {}, "files of measured steps");
    KEY(std::vector<std::string>, untuned, {}, "frameworks whose files describe nobody's recipe");
    KEY(Scatter, frameworks, {}, "how far the medians of frameworks lie apart");
    KEY(Scatter, few_shot, {},
        "other models' steps in a framework whose costs were fitted to steps of one");
    KEY(PairScatter, pairs, {}, "");
    KEY(NetworkPrior, network, {}, "");
    KEY(MemoryScatter, memory, {}, "");
    KEY_NAMED(std::vector<ClassScatter>, classes, {}, "class", "");
    // what widens a class, in squares, where it is true of a step (traits_of())
    KEY_NAMED(std::vector<ClassScatter>, traits, {}, "trait", "");
    KEY_NAMED(std::vector<GroupScatter>, groups, {}, "group", "");
    friend bool operator==(const ScatterTable&, const ScatterTable&) = default;
};

ScatterTable read_scatter(const std::string& path);  // throws ConfigError with file:line:column
std::string write_scatter(const ScatterTable& table);
const ScatterTable& shipped_scatter();  // read once; empty if the file is missing

// Name of the range of rank numbers among the ranges of a fit.
inline constexpr const char* ranks_range = "ranks";
// How a fit names errors from leaving out blocks ("left out by model (3)"), and the number of
// blocks: 0 for another method, and 2, the minimum, if no number is recorded.
std::string left_out_by(std::string_view what, std::size_t blocks);
int left_out_blocks(std::string_view method);

// Scatter of steps in a framework on a device. It joins the error of the device's own fit
// (cluster.noise.step), the spread of frameworks (unless "native"), and with growing weight per
// block either the steps measured for both or the framework fit's left-out blocks. For models or
// ranks beyond a fit that could leave no block out, it uses the error of such fits elsewhere.
Scatter scatter_of(const ScatterTable& table, const Framework& framework, const Cluster& cluster);

}  // namespace stepcast
