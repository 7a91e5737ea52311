// The files of reports/page/ and the scripts of d3, as they were when the program was built.
// Internal to reports/.
#pragma once

#include <string_view>

namespace stepcast::page_files {

extern const std::string_view page, style, script, map_script;
extern const std::string_view d3, d3_licence;  // d3: empty if it was not found

}  // namespace stepcast::page_files
