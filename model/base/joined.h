// Lists as text. fmt::join does the same and takes a compiler up to half a second more in each
// file.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace stepcast {

// The texts in their order, with `between` between them.
std::string joined(const std::vector<std::string>& texts, std::string_view between);
// The same of whole numbers, and of other lists of texts.
template <class Items>
std::string joined(const Items& items, std::string_view between) {
    std::vector<std::string> texts;
    for (const auto& item : items) {
        if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(item)>>)
            texts.push_back(std::to_string(item));
        else
            texts.emplace_back(item);
    }
    return joined(texts, between);
}

}  // namespace stepcast
