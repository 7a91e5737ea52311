// What is refused before long work starts, not after it. All throw ConfigError.
#pragma once

#include <string>

namespace stepcast {

// Makes `folder` where it is missing; "" is the one we are in.
void make_folder(const std::string& folder);
void make_folder_of(const std::string& file);

// A trace in the place of the experiment that it shows would leave neither.
void require_other_file(const std::string& trace, const std::string& experiment);

void require_device(const std::string& device);

}  // namespace stepcast
