// Whether a run is slower than its history, as text, an object and a JUnit file.
#pragma once

#include <string>

#include "sim/results/gate.h"

namespace stepcast {

std::string gate_text(const GateAnswer& a);
std::string to_json(const GateAnswer& a);
// One test case: a failure, or skipped where it cannot be told.
std::string gate_junit(const GateAnswer& a);

}  // namespace stepcast
