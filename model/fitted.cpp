#include "model/fitted.h"

#include <fmt/format.h>

#include "model/base/plain_text.h"

namespace stepcast {

std::string short_value(const std::string& value) {
    const auto end = value.find(' ');
    const auto number = as_number<double>(value.substr(0, end));
    if (!number) return value;
    return fmt::format("{:.4g}{}", *number, end == std::string::npos ? "" : value.substr(end));
}

}  // namespace stepcast
