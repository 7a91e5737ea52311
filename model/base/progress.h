// Callback that reports to a waiting user what is being done.
#pragma once

#include <functional>
#include <string_view>

namespace stepcast {

using Progress = std::function<void(std::string_view)>;

}  // namespace stepcast
