// Real files of other tools, where a folder with them lies beside the project.
#pragma once

#include <string>

#include "tests/truth.h"

namespace stepcast {

inline std::string shared_configs() { return shared_folder("configs"); }
inline bool configs_are_absent() { return is_absent(shared_configs(), "shared/configs"); }

}  // namespace stepcast
