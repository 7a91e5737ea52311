// Golden texts: whole outputs as they were when they were last renewed on purpose. To renew them after a wanted change:
// STEPCAST_RENEW_GOLDEN=1 build/dev/tests/test_FOLDER "golden*", then read git diff tests/*/golden before committing it.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "model/presets.h"

namespace stepcast {

// `name`: below tests/. Says the first line that differs rather than two long texts.
inline void check_golden(const std::string& name, const std::string& text) {
    const std::string path = home_folder() + "/tests/" + name;
    if (std::getenv("STEPCAST_RENEW_GOLDEN")) std::ofstream(path, std::ios::binary) << text;
    std::ifstream was(path, std::ios::binary);
    std::istringstream now(text);
    std::string a, b;
    for (int line = 1;; ++line) {
        const bool more = static_cast<bool>(std::getline(now, a)), golden = static_cast<bool>(std::getline(was, b));
        CAPTURE(name, line);
        REQUIRE(more == golden);
        if (!more) return;
        REQUIRE(a == b);
    }
}

// Every `what` in the text by `by`: folders that are others in every run.
inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
    for (std::size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), by);
    return text;
}

}  // namespace stepcast
