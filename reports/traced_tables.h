// Traced steps beside what was predicted of them, as text and as plots' numbers.
#pragma once

#include <string>

#include "model/answers/traced_step.h"

namespace stepcast {

// Rank by rank the span and the exposed communication, then cost and schedule error by kind of work.
std::string traced_table(const TracedStep& step);

}  // namespace stepcast
