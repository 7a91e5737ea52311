// What --version says.
#pragma once

#include <string>

namespace stepcast {

// "stepcast 0.1.0", then a line each for commit, compiler, and the libraries that this build has or lacks.
std::string version_text();

}  // namespace stepcast
