#include "model/base/plain_text.h"

#include <catch2/catch.hpp>

using namespace stepcast;

// The first and the last character of each length (RFC 3629), U+0080, 07FF, 0800, FFFF, 10000 and
// 10FFFF, stay. Overlong forms, halves of pairs, what is beyond the last and what ends early become
// one question mark per byte. C1 controls end with U+009F.
TEST_CASE("text of whole characters stays, and nothing else does") {
    for (const char* whole :
         {"\xc2\xa0", "\xdf\xbf", "\xe0\xa0\x80", "\xe1\x80\x80", "\xed\x9f\xbf", "\xee\x80\x80",
          "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf1\x80\x80\x80", "\xf4\x8f\xbf\xbf", "~", " ",
          "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\xa5", "\xe2\x81\xaa"})
        CHECK(plain_text(whole) == whole);
    CHECK(plain_text("\x7f\x1f\n") == "???");
    for (const char* control :
         {"\xc2\x80", "\xc2\x9f", "\xe2\x80\xaa", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9"})
        CHECK(plain_text(control) == "?");
    for (const char* two : {"\xc1\xbf", "\xc0\x80", "\xc3\x28"})
        CHECK(plain_text(two) == (std::string(two).substr(1) == "(" ? "?(" : "??"));
    for (const char* three : {"\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf"})
        CHECK(plain_text(three) == "???");
    for (const char* four : {"\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
        CHECK(plain_text(four) == "????");
    CHECK(plain_text("a\xe2\x82") == "a??");
    CHECK(plain_text("\x80") == "?");
    CHECK(plain_text("a\nb\tc", "\n") == "a\nb?c");
    CHECK(lower_case("AbZ-9") == "abz-9");
}

TEST_CASE("words are told apart by commas, without blanks around them") {
    CHECK(words_of(" a b ,c,, d ") == std::vector<std::string>{"a b", "c", "d"});
    CHECK(words_of("") == std::vector<std::string>{});
    CHECK(words_of(" , ") == std::vector<std::string>{});
    CHECK(words_of("x") == std::vector<std::string>{"x"});
}
