// Makes text from files, options and the environment safe to show to people and programs.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// Text that is safe to print: control characters not in `kept`, and bytes that are not UTF-8,
// become '?'.
std::string plain_text(std::string_view text, std::string_view kept = "");

std::string lower_case(std::string text);

// The part of `text` without blanks at both ends. It is a view, so `text` must outlive it.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t");

// The words of a list that any of these characters separate, without surrounding blanks.
std::vector<std::string> words_of(const std::string& list, std::string_view separators = ",");

// The number, if the whole text is one.
template <class Number>
std::optional<Number> as_number(std::string_view text) {
    Number value{};
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

}  // namespace stepcast
