// The lines of a framework: in its file, in [framework] of an experiment, and after --set
// framework. Internal to model/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/framework.h"
#include "model/input/toml_reader.h"

namespace stepcast {

// Whether `key`, below framework., is a line of [runtime], of a table beside it or of [[when]], or
// one of the names that such lines had before there were these tables.
bool is_framework_line(std::string_view key);
// The part below framework. of the path of such a line in an experiment; "" of other paths.
std::string_view framework_key(std::string_view path);
// All that are known, for "did you mean".
std::vector<std::string> framework_line_names();
// What a file would hold for text of the command line.
ConfigValue value_of_line(std::string_view key, const std::string& text);
// Takes such lines, whose paths are below framework. Throws ConfigError with position.
void take_framework_lines(Framework& framework, const std::vector<TomlEntry>& lines);
// The value that the framework gives to such a line, as for --set; "" if none.
std::string framework_line(const Framework& framework, std::string_view key);
// All rules as lines of a file, or those without conditions.
std::string rules_text(const Framework& framework, bool plain_alone = false);

}  // namespace stepcast
