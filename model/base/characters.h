// Kinds of characters, as the C library has them. Its functions may not be given a negative char,
// as the bytes of UTF-8 are: here any char may be asked for.
#pragma once

#include <cctype>

namespace stepcast {

inline bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
inline bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
inline bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
inline bool is_name_character(char c) { return is_letter_or_digit(c) || c == '_'; }
inline bool is_number_character(char c) { return is_digit(c) || c == '.'; }
inline bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

inline char lower_case(char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

}  // namespace stepcast
