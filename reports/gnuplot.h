// The only file that starts gnuplot, by gnuplot-iostream. Pictures and complaints come back through
// files without names.
#pragma once

#include <chrono>
#include <string>

#include "reports/plot_frame.h"

namespace stepcast {

// Writes PATH.png and PATH.svg, each complete or not at all. Throws ConfigError if there is no
// gnuplot (names the package), if gnuplot dies, complains or takes longer than `patience`, or if a
// picture is empty or broken.
void render_plot(const Drawing& drawing, const std::string& path,
                 std::chrono::milliseconds patience = std::chrono::minutes(1));

}  // namespace stepcast
