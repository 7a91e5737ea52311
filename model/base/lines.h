// Texts that a list collects one after another: notes, warnings, what a file leaves open.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace stepcast {

// Appends the text, with its fields filled as fmt::format() fills them.
template <class First, class... More>
void add_line(std::vector<std::string>& lines, fmt::format_string<First, More...> text,
              First&& first, More&&... more) {
    lines.push_back(fmt::format(text, std::forward<First>(first), std::forward<More>(more)...));
}

}  // namespace stepcast
