// A user's own measured steps narrow the forecasts of his next ones: what these share with the
// measured ones (kinds of work, configuration) errs alike.
#pragma once

#include <string>
#include <vector>

#include "model/experiment.h"
#include "sim/predict.h"

namespace stepcast {

// One measured step beside its forecast.
struct OwnStep {
    KEY(std::string, name, {}, "of the experiment");
    KEY(double, off, 0, "logarithm of measured over forecast", -50, 50);
    KEY(std::vector<double>, shares, {},
        "of its time: compute, memory, exposed communication, host");
    KEY(std::vector<double>, settings, {}, "logarithms of sizes and degrees");
    KEY(std::vector<std::string>, words, {}, "precision, device, model");
    friend bool operator==(const OwnStep&, const OwnStep&) = default;
};

struct OwnSteps {
    KEY_NAMED(std::vector<OwnStep>, steps, {}, "step", "");
    friend bool operator==(const OwnSteps&, const OwnSteps&) = default;
};

OwnStep own_step(const Experiment& experiment, const Forecast& forecast, Seconds measured);
OwnSteps read_own_steps(const std::string& path);  // throws ConfigError with file:line:column
std::string write_own_steps(const OwnSteps& steps);

// What the steps say of another one: the logarithm of measured over forecast with its standard
// deviation, and what of it each kind of work, all of it alike, and the configuration explain.
struct Narrowed {
    double off = 0, deviation = 0;
    double common = 0, configuration = 0;
    std::vector<double> work;  // as OwnStep::shares
    friend bool operator==(const Narrowed&, const Narrowed&) = default;
};
Narrowed narrowed(const OwnSteps& steps, const OwnStep& asked);

// Forecasts anew with what the user's steps say; says so in the forecast's first note. Without
// steps nothing changes.
void narrow(const OwnSteps& steps, const Experiment& experiment, Forecast& forecast);
void narrow(const OwnSteps& steps, const Experiment& experiment, Prediction& prediction);

}  // namespace stepcast
