// JSON as people write it: DeepSpeed reads its files with hjson (runtime/config.py), others join
// several files in braces.
#pragma once

#include <string>

#include "import/launch/document.h"

namespace stepcast {

Document read_json(const std::string& text, const std::string& path);
bool is_yaml_name(const std::string& path);
bool is_json(const std::string& text);  // begins with a brace, comments apart
Document read_json_or_yaml(const std::string& text, const std::string& path);

}  // namespace stepcast
