#include "model/base/terminal_codes.h"

namespace stepcast {
namespace {

// Behind the code that begins at `at`: ESC [ parameters final, ESC ] title BEL, ESC final. A code
// that is cut ends where no character of it follows.
std::size_t behind_code(std::span<const char> text, std::size_t at) {
    std::size_t i = at + 1;
    const auto holds = [&](char first, char last) {
        return i < text.size() && text[i] >= first && text[i] <= last;
    };
    if (holds(']', ']')) {
        while (i < text.size() && text[i] != '\n' && text[i] != '\a' && text[i] != '\x1b') ++i;
        return holds('\a', '\a') ? i + 1 : i;  // its other end, ESC \, is a code
    }
    if (holds('[', '['))
        for (++i; holds('0', '?');) ++i;
    while (holds(' ', '/')) ++i;
    return holds('0', '~') ? i + 1 : i;
}

}  // namespace

std::size_t drop_terminal_codes(std::span<char> text) {
    std::size_t to = 0;
    for (std::size_t i = 0; i < text.size();)
        if (text[i] == '\x1b')
            i = behind_code(text, i);
        else
            text[to++] = text[i++];
    return to;
}

}  // namespace stepcast
