// The static picture of a step: slots of each rank with their micro-batch, exposed exchanges, idle time hatched, and the
// memory of one rank below it.
#pragma once

#include <span>
#include <string>

#include "model/answers/gantt.h"

namespace stepcast {

// One below the other on one axis of time. Writes PATH.png and PATH.svg; ConfigError when gnuplot cannot.
void plot_gantts(std::span<const Gantt> gantts, const std::string& path);

}  // namespace stepcast
