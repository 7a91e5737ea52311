// What is said of a configuration that no reader knows.
#pragma once

#include <string>

namespace stepcast {

// What to say of YAML, JSON or TOML that no reader knows; "" if the file is none of these.
std::string unknown_configuration(const std::string& path);

}  // namespace stepcast
