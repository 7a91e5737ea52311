// Whether a text has words that tell what it is.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>

namespace stepcast {

inline bool has(std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
}
inline bool has(std::string_view text, char letter) {
    return text.find(letter) != std::string_view::npos;
}
inline bool has_any(std::string_view text, std::span<const std::string_view> words) {
    return std::ranges::any_of(words, [&](std::string_view word) { return has(text, word); });
}
inline bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
    return has_any(text, std::span(words.begin(), words.size()));
}
inline bool has_all(std::string_view text, std::initializer_list<std::string_view> words) {
    return std::ranges::all_of(words, [&](std::string_view word) { return has(text, word); });
}
inline bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(words,
                               [&](std::string_view word) { return text.starts_with(word); });
}

}  // namespace stepcast
