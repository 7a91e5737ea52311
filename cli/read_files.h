// Every file that a command reads, so that no output takes the place of one.
#pragma once

#include <string>
#include <vector>

namespace stepcast {

// The inputs (files, folders or names of presets) and every existing file that they name, through
// all chains: the base of a framework, cluster or experiment, a file in a cell of a table, a script
// that another starts. A file counts as read where it is only named.
std::vector<std::string> files_behind(const std::vector<std::string>& inputs);

}  // namespace stepcast
