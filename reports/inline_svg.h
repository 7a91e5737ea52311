// gnuplot's SVG as a part of an HTML page. Internal to reports/.
#pragma once

#include <string>
#include <string_view>

namespace stepcast {

// The picture alone, with names of its own (so that several share a page) and its greys as the page's variables, which
// are others on a dark ground. Colours of data stay. "" for what is no SVG of gnuplot's.
std::string inline_svg(std::string_view svg, std::string_view label);

}  // namespace stepcast
