// What a fit to recorded files reads and writes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calibrate/left_out.h"
#include "calibrate/step_constants.h"

namespace stepcast {

// A fit of steps alone has a target, and blocks that it leaves out in turn.
struct CalibrationRequest {
    std::vector<std::string> measurements;
    std::string cluster;  // preset or file to start from
    // the same; empty: each row's own, and no fit of one to tables of traces
    std::string framework = {};
    std::string out, date;  // the cluster file to write; today's, for the provenance
    FitTarget target = FitTarget::hardware;
    std::vector<LeftOut> blocks = {LeftOut::model, LeftOut::ranks};
    std::function<bool()> enough = {};  // asked after each pass over steps: whether to stop
};

}  // namespace stepcast
