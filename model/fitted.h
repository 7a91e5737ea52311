// What a fit determined for a cluster or a framework, from which data, and with which error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/names.h"
#include "model/input/keyed.h"

namespace stepcast {

struct FittedParameter {
    KEY(std::string, key, {}, "key below the table that was fitted");
    KEY(std::string, value, {}, "with unit, as in TOML");
    KEY(std::string, prior, {}, "value before the fit: datasheet or prior");
    KEY(double, relative_error, 0, "one standard deviation relative to the value", 0, upto::any);
    KEY(bool, determined, true, "false: the data did not determine it, and it kept its prior");
    friend bool operator==(const FittedParameter&, const FittedParameter&) = default;
};
// "0.29999999999999999 GB/s" -> "0.3 GB/s": a value as people read it, to four figures.
std::string short_value(const std::string& value);

struct HeldOutError {
    KEY(std::string, kind, {}, "op kind or \"step\"");
    KEY(std::string, method, {}, "\"leave-one-out\", \"held-out fifth\"");
    KEY(int, samples, 0, "rows held out");
    KEY(double, median, 0, "of the absolute error; 0 where it was not computed", 0, upto::any);
    KEY(double, mape, 0, "mean absolute error, a fraction", 0, upto::any);
    KEY(double, bias, 0, "predicted over measured minus 1", atleast::any, upto::any);
    KEY(double, worst, 0, "of the errors", atleast::any, upto::any);
    friend bool operator==(const HeldOutError&, const HeldOutError&) = default;
};
// The sizes that a law was fitted on: "gemm.m" 64 to 8192, "all_reduce.bytes" 512 to 5e8.
struct FittedRange {
    KEY(std::string, what, {}, "op kind and size");
    KEY(double, least, 0, "smallest", atleast::any, upto::any);
    KEY(double, most, 0, "largest", atleast::any, upto::any);
    friend bool operator==(const FittedRange&, const FittedRange&) = default;
};
// Constants beside `parameters` that also determine forecasts: a measured table, copied host costs.
struct FittedConstants {
    KEY(std::string, what, {}, "key, or the beginning of several (\"host\")");
    KEY(int, count, 0, "how many");
    KEY(std::string, from, {}, "files, \"prior\", or the cluster that they were copied from");
    friend bool operator==(const FittedConstants&, const FittedConstants&) = default;
};
// Hash of a measured row's content (model/records/provenance.h).
using RowHash = std::uint64_t;
// How independent a measured row is of its forecast: the cluster was fitted on it; the model's
// author could see it; neither.
NAMED_ENUM_AS(Evidence, "a kind of evidence", "fitted on, seen, unseen", fitted, seen, unseen);

// Where the numbers come from. Reading a cluster file applies `parameters` over the datasheet
// values.
struct Fitted {
    KEY(std::string, date, {}, "of the fit");
    KEY(std::vector<std::string>, sources, {}, "files of measurements");
    KEY(int, samples, 0, "rows of them");
    KEY(double, condition, 0, "of the scaled normal equations, determined parameters only", 0,
        upto::any);
    KEY(std::vector<std::string>, measured, {},
        "kinds that the data determined: \"gemm\", \"step\", ..; empty: not recorded");
    KEY(std::vector<double>, correlation, {},
        "of the logarithms of `parameters` after the fit: lower triangle, row by row");
    KEY(std::vector<FittedParameter>, parameters, {}, "");
    KEY(std::vector<HeldOutError>, errors, {}, "");
    KEY(std::vector<FittedRange>, ranges, {}, "");
    KEY(std::vector<FittedConstants>, constants, {}, "");
    std::vector<RowHash> rows;  // fitted rows, ascending, without those held out
    friend bool operator==(const Fitted&, const Fitted&) = default;
};

}  // namespace stepcast
