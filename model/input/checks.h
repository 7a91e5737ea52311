// Rules between keys. Internal to model/.
#pragma once

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/experiment.h"

namespace stepcast {

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw ConfigError(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace stepcast
