// Text from files, options and the environment on its way to people and programs.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// Text that can only be read: control characters, but for those in `kept`, and bytes that are no UTF-8 become '?'.
std::string plain_text(std::string_view text, std::string_view kept = "");

std::string lower_case(std::string text);

// A part of `text`, which has to outlive it: without the blanks at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t");

// The words of a list, which any of these characters separate, without blanks around them.
std::vector<std::string> words_of(const std::string& list, std::string_view separators = ",");

// The number that the text is, all of it.
template <class Number>
std::optional<Number> as_number(std::string_view text) {
    Number value{};
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

}  // namespace stepcast
