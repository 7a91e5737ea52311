// Lines of frameworks before November 2026, of which each set a key of its own that a key of the
// experiment followed. Users' files still have them. Internal to model/.
#pragma once

#include <span>
#include <string_view>

#include "model/framework.h"
#include "model/input/toml_reader.h"

namespace stepcast {

struct OlderLine {
    std::string_view old, now;  // below framework.; the key that it sets
    // of lines whose rule has conditions, decides two keys or has other words than the key
    void (*take)(Framework& framework, const OlderLine& line, const ConfigValue& value) = nullptr;
    std::string_view if_true = {}, if_false = {};  // names in place of a switch
};

std::span<const OlderLine> older_lines();
const OlderLine* older_line(std::string_view key);  // nullptr if there was none
// Throws ConfigError without position.
void take_older_line(Framework& framework, const OlderLine& line, const ConfigValue& value);

}  // namespace stepcast
