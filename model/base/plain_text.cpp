#include "model/base/plain_text.h"

#include <algorithm>
#include <cctype>

#include <boost/locale/utf.hpp>

#include "model/base/text_search.h"

namespace stepcast {
namespace {

namespace utf = boost::locale::utf;

// Characters that reverse the text direction (U+202A to 202E, U+2066 to 2069) can make a line look
// like something else.
bool controls(utf::code_point c) {
    const auto within = [c](utf::code_point first, utf::code_point last) {
        return c >= first && c <= last;
    };
    return c < ' ' || within(0x7f, 0x9f) || within(0x202a, 0x202e) || within(0x2066, 0x2069);
}

}  // namespace

std::string plain_text(std::string_view text, std::string_view kept) {
    std::string plain;
    for (const char* at = text.begin(); at != text.end();) {
        const char* end = at;
        const utf::code_point c = utf::utf_traits<char>::decode(end, text.end());
        const bool valid = utf::is_valid_codepoint(c);
        if (!valid) end = at + 1;
        const std::string_view character(at, end);
        plain += valid && (!controls(c) || has(kept, character)) ? character : "?";
        at = end;
    }
    return plain;
}

std::string lower_case(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return text;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
    const auto first = text.find_first_not_of(blanks);
    return first == std::string_view::npos
               ? ""
               : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string> words_of(const std::string& list, std::string_view separators) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t end = std::min(list.find_first_of(separators, at), list.size());
        if (const auto word = trimmed(std::string_view(list).substr(at, end - at), " ");
            !word.empty())
            words.emplace_back(word);
        at = end + 1;
    }
    return words;
}

}  // namespace stepcast
