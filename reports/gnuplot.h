// Runs a gnuplot script and makes sure that a picture came out of it.
#pragma once

#include <string>
#include <string_view>

namespace stepcast {

// Renders `script` (everything but terminal and output) to PATH.png and PATH.svg. Each file appears whole or not at
// all. Throws ConfigError: no gnuplot (names the package), gnuplot died or complained, an empty or broken picture.
void render_plot(const std::string& script, const std::string& path);

// `text` as a gnuplot string; may break into lines.
std::string gnuplot_text(std::string_view text);

}  // namespace stepcast
