// How far measured steps lie from forecasts that had not seen them: by framework and device. Data
// (model/presets/scatter.toml), written by `calibrate --fit scatter` from tables of measured steps.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/framework.h"

namespace stepcast {

inline constexpr double p90_of_normal = 1.2815515655446004;

// Logarithms of forecast over p10, and of p90 over forecast: beside what the doubt about single constants explains.
struct Scatter {
    double faster = 0, slower = 0;
    friend bool operator==(const Scatter&, const Scatter&) = default;
};

struct GroupScatter {
    std::string framework, gpu;
    int rows = 0, blocks = 0;  // blocks: models
    Scatter scatter;
    friend bool operator==(const GroupScatter&, const GroupScatter&) = default;
};

// Of the error of one configuration over another's of the same model: at p10 and p90 of configurations that spend their
// step alike, and what is added (squares) for each unit of distance between their shares of a step by kind of work.
struct PairScatter {
    double near = 0, far = 0;
    friend bool operator==(const PairScatter&, const PairScatter&) = default;
};

struct ScatterTable {
    std::string date;
    std::vector<std::string> sources;
    Scatter frameworks;  // how far the medians of frameworks lie apart
    PairScatter pairs;
    std::vector<GroupScatter> groups;
    friend bool operator==(const ScatterTable&, const ScatterTable&) = default;
};

ScatterTable read_scatter(const std::string& path);  // throws ConfigError with file:line:column
std::string write_scatter(const ScatterTable& table);
const ScatterTable& shipped_scatter();  // read once; an empty one where there is no file

// Of steps in a framework on a device: what the device's own fit left (cluster.noise.step), as far as the framework was
// not fitted what frameworks differ by, and, the more blocks there are, what steps of both have shown.
Scatter scatter_of(const ScatterTable& table, const Framework& framework, const Cluster& cluster);

}  // namespace stepcast
