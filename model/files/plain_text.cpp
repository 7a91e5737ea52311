#include "model/files/plain_text.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace stepcast {
namespace {

unsigned char byte(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

// Bytes of the character that begins at `at`; 0 for one that is no UTF-8 (RFC 3629, section 4).
std::size_t length_of(std::string_view text, std::size_t at) {
    const unsigned char first = byte(text, at);
    const std::size_t length = first < 0x80                      ? 1
                               : first >= 0xc2 && first <= 0xdf ? 2
                               : first >= 0xe0 && first <= 0xef ? 3
                               : first >= 0xf0 && first <= 0xf4 ? 4
                                                                : 0;
    if (at + length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(text, at + i) & 0xc0) != 0x80) return 0;
    const unsigned char second = length > 1 ? byte(text, at + 1) : 0;
    const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    const bool no_character = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
    return too_long || no_character ? 0 : length;
}

bool controls(std::string_view character) {
    const unsigned char first = byte(character, 0);
    // Those that turn the direction of what follows make a line show other than it is: U+202A to 202E, U+2066 to 2069.
    const bool turns = (character >= "\u202a" && character <= "\u202e") || (character >= "\u2066" && character <= "\u2069");
    return first < ' ' || first == 0x7f || (first == 0xc2 && byte(character, 1) < 0xa0) || turns;
}

}  // namespace

std::string plain_text(std::string_view text, std::string_view kept) {
    std::string plain;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = length_of(text, at);
        const std::string_view character = text.substr(at, length == 0 ? 1 : length);
        const bool harmless = length > 0 && (!controls(character) || kept.find(character) != std::string_view::npos);
        plain += harmless ? character : "?";
        at += character.size();
    }
    return plain;
}

std::string lower_case(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
    const auto first = text.find_first_not_of(blanks);
    return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string> words_of(const std::string& list, std::string_view separators) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t end = std::min(list.find_first_of(separators, at), list.size());
        const std::size_t first = list.find_first_not_of(' ', at);
        if (first < end) words.push_back(list.substr(first, list.find_last_not_of(' ', end - 1) + 1 - first));
        at = end + 1;
    }
    return words;
}

}  // namespace stepcast
