// Measured samples in long form, one row per sample, from logs, own runs or other tools.
#pragma once

#include <string>
#include <vector>

#include "model/base/units.h"

namespace stepcast {

// CSV header: run_id,system,model,experts,ranks,phase,rank,step,value,unit . `phase` is what was
// timed: "step", "forward", "backward", or a kernel or quantity name ("AG.forward",
// "host_assignment"). rank -1 = the whole run. step -1 = a summary over steady steps (the imported
// medians). Values are in SI base units; unit "s", "B" or "1".
struct Sample {
    std::string run_id, system, model;
    int experts = 0;  // total over all ranks; 0 = dense
    int ranks = 0;
    std::string phase;
    int rank = -1;
    int step = -1;
    double value = 0;
    std::string unit = "s";
    friend bool operator==(const Sample&, const Sample&) = default;
};

// Throws ConfigError for a unit that is none of these, a value that is no time of a phase, and a
// sample without run_id or phase.
void check_sample(const Sample& sample);

// Lines before the header that begin with # are comments. Throws ConfigError with file:line.
std::vector<Sample> read_measurements(const std::string& path);
std::string write_measurements(const std::vector<Sample>& samples);

// Whether a file is taken for a log: .log, .out or .txt.
bool has_name_of_log(const std::string& path);

// First steady step of a run: step 30 of 100 or more, else the start of the last 70 %.
int first_steady_step(int steps);

}  // namespace stepcast
