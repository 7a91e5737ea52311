#include "cli/startup.h"

#include <cstddef>
#include <cstdio>

#include "model/files/plain_text.h"

namespace stepcast {

void say_on_stderr(const std::string& line) {
    constexpr std::size_t longest = 4000;
    const std::string text = plain_text(line.substr(0, longest), "\n\t");
    std::fprintf(stderr, "stepcast: %s%s\n", text.c_str(), line.size() > longest ? " .." : "");
}

}  // namespace stepcast
