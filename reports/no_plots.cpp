#include "model/errors.h"
#include "reports/gnuplot.h"

namespace stepcast {

void render_plot(const std::string&, const std::string& path) {
    throw ConfigError(path + ".png: this program was built without plots (WITH_REPORTS); draw them with one that has them");
}

std::string gnuplot_text(std::string_view text) { return std::string(text); }

}  // namespace stepcast
