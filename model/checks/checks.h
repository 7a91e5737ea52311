// Rules between keys. Internal to model/.
#pragma once

#include <fmt/format.h>

#include "model/errors.h"
#include "model/experiment.h"

namespace stepcast {

// Throw ConfigError that begins with the key to change. Only for that kind of workload; of parallelism.eager_script.
void check_transformer(const Experiment& experiment);
void check_coca(const Experiment& experiment);
void check_eager(const Experiment& experiment);

// Of a key that the kind of workload does not model.
void check_default(const Experiment& experiment, std::string_view path);

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw ConfigError(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace stepcast
