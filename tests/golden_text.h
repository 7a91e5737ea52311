// Golden texts: whole outputs as they were when they were last renewed on purpose. To renew them
// after a wanted change: STEPCAST_RENEW_GOLDEN=1 build/dev/tests/test_FOLDER "golden*", then read
// git diff tests/*/golden before committing it.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include "model/input/presets.h"

namespace stepcast {

// The decimal fraction that `text` begins with, cut off it; nothing where it begins with none.
// Whole numbers are words: they count.
inline std::optional<double> fraction(std::string_view& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view digits(text.data(), static_cast<std::size_t>(end - text.data()));
    if (error != std::errc() || digits.find_first_of(".e") == std::string_view::npos) return {};
    text.remove_prefix(digits.size());
    return value;
}

// Words must be equal, fractions to five digits: the last ones of a logarithm, and so of a fit,
// depend on the processor.
inline bool same_line(std::string_view a, std::string_view b) {
    while (!a.empty() && !b.empty()) {
        std::string_view rest_a = a, rest_b = b;
        const auto left = fraction(rest_a), right = fraction(rest_b);
        if (left && right) {
            if (std::abs(*left - *right) > 1e-5 * std::max(std::abs(*left), std::abs(*right)))
                return false;
            a = rest_a, b = rest_b;
            continue;
        }
        // A whole number is taken whole, or its tail would be read as a fraction.
        const std::size_t size =
            std::max<std::size_t>(1, std::min(a.size(), a.find_first_not_of("0123456789")));
        if (a.substr(0, size) != b.substr(0, size)) return false;
        a.remove_prefix(size), b.remove_prefix(size);
    }
    return a.empty() && b.empty();
}

// `name`: below tests/. Says the first line that differs rather than two long texts.
inline void check_golden(const std::string& name, const std::string& text) {
    const std::string path = home_folder() + "/tests/" + name;
    if (std::getenv("STEPCAST_RENEW_GOLDEN")) std::ofstream(path, std::ios::binary) << text;
    std::ifstream was(path, std::ios::binary);
    std::istringstream now(text);
    std::string a, b;
    for (int line = 1;; ++line) {
        const bool more = static_cast<bool>(std::getline(now, a)),
                   golden = static_cast<bool>(std::getline(was, b));
        CAPTURE(name, line, a, b);
        REQUIRE(more == golden);
        if (!more) return;
        REQUIRE(same_line(a, b));
    }
}

// Every `what` in the text by `by`: folders that are others in every run.
inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
    for (std::size_t at; (at = text.find(what)) != std::string::npos;)
        text.replace(at, what.size(), by);
    return text;
}

inline std::string text_of_file(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

}  // namespace stepcast
