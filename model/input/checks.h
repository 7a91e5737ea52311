// Rules between keys. Internal to model/.
#pragma once

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/experiment.h"

namespace stepcast {

// Each throws ConfigError that begins with the key to change, and applies only to its own workload
// kind or to eager_script.
void check_transformer(const Experiment& experiment);
void check_coca(const Experiment& experiment);
void check_eager(const Experiment& experiment);

// Refuses a value other than the default in a key that the workload kind does not model.
void check_default(const Experiment& experiment, std::string_view path);

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw ConfigError(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace stepcast
