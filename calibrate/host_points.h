// What a host sweep measured, one point a size: medians over ranks and undisturbed repetitions. Where no repetition was
// undisturbed, the lower quartile of all: disturbance only adds time.
#pragma once

#include <map>
#include <string>

#include "calibrate/host_sweep.h"

namespace stepcast {

struct HostPoints {
    std::vector<GemmPoint> gemms;
    Curve memory;  // ascending, one point a size; so are the curves below
    Curve transposes;
    std::map<std::string, Curve> collectives;  // by kind_name
    Seconds empty_task;                        // from one empty task to the next
    Seconds barrier;
    double op_noise = 0, step_noise = 0;  // standard deviations of the logarithm, from quartiles
    int samples = 0;
};

HostPoints collect_points(std::span<const SweepResult> results);

}  // namespace stepcast
