// Inputs that steps had and the log does not print ("workload.seq=88,109,.."), as rows next to the measured ones.
#pragma once

#include <string>
#include <vector>

#include "calibrate/logs/import.h"

namespace stepcast {

class StepInputs {
public:
    // "KEY=VALUE" holds for the whole run, "KEY=A,B,.." from its first step on. Throws ConfigError: no key, no number.
    explicit StepInputs(const std::vector<std::string>& texts);
    void add_to(SampleRecord& samples) const;

private:
    struct Input {
        std::string key;
        std::vector<double> values;
    };
    std::vector<Input> inputs_;
};

}  // namespace stepcast
