// Refuses what a user gave.
#pragma once

#include <utility>

#include <fmt/core.h>

#include "model/base/errors.h"

namespace stepcast {

// Throws ConfigError with the text, whose fields are filled as fmt::format() fills them.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw ConfigError(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace stepcast
