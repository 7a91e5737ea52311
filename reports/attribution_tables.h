// Cost error and schedule error of own runs as text.
#pragma once

#include <string>

#include "model/answers/attribution.h"

namespace stepcast {

// "cost error +3.1 %, schedule error -0.4 %".
std::string attribution_sentence(const ErrorAttribution& attribution);
// The sentence, then one line an op kind and phase: predicted and measured time on the slowest rank, error, and how
// much of the step the kind's error is.
std::string attribution_table(const std::string& name, const ErrorAttribution& attribution);

}  // namespace stepcast
