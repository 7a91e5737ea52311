// What a translation says, as tests compare it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "import/launch/translate.h"

namespace stepcast {

inline std::string value(const Translation& t, const std::string& key) {
    const auto* found = t.find(key);
    return found ? found->value : "";
}

inline std::string lines(const std::vector<std::string>& all) {
    std::string text;
    for (const auto& line : all) text += line + "\n";
    return text;
}

// "layers=32 tp=2": every pair as the translation says it; workload and parallelism are left out.
inline void check_values(const Translation& t,
                         const std::vector<std::pair<std::string, std::string>>& expected) {
    for (const auto& [key, wanted] : expected) {
        INFO(t.path + " " + key);
        CHECK(value(t, key) == wanted);
    }
}

}  // namespace stepcast
