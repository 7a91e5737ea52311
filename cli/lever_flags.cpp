#include "cli/lever_flags.h"

#include <algorithm>
#include <string>

#include "import/launch/emit.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "sim/levers.h"

namespace stepcast {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& script) {
    Lines lines;
    for (const std::string& line : words_of(script, "\n")) {
        const auto begin = line.find_first_not_of(' ');
        if (begin != std::string::npos && line[begin] != '#') lines.push_back(line.substr(begin));
    }
    return lines;
}

std::string name_in(const std::string& line) { return line.substr(0, line.find_first_of(" :=")); }

// What the second has that the first has not.
Lines only_in_second(const Lines& first, const Lines& second) {
    return where(second, [&](const std::string& line) { return !contains(first, line); });
}

// Changed values are named once, by the new one.
std::string change_between(const Lines& before, const Lines& after) {
    const Lines more = only_in_second(before, after);
    std::string text;
    for (const std::string& line : more) text += (text.empty() ? "" : ", ") + line;
    for (const std::string& line : only_in_second(after, before))
        if (!contains(more, name_in(line), name_in))
            text += (text.empty() ? "drop " : ", drop ") + line;
    return text;
}

// The reason alone: the lever's row names the framework.
std::string reason_of(const ConfigError& error) {
    const std::string what = error.what();
    const auto at = what.find(cannot_run);
    return at == std::string::npos ? what : what.substr(at + cannot_run.size());
}

}  // namespace

void name_flags(const Experiment& e, std::vector<Lever>& levers) {
    if (e.framework.script.empty()) return;
    const auto format = parse_name<EmitFormat>(e.framework.script);
    Lines before;
    try {
        before = lines_of(script_of(e, format).text);
    } catch (const ConfigError&) {
        return;  // this split has no script to change
    }
    for (Lever& lever : levers) {
        if (!lever.hardware.empty()) continue;
        try {
            lever.flag =
                change_between(before, lines_of(script_of(with_lever(e, lever.set), format).text));
            if (lever.flag.empty() && lever.cannot.empty()) lever.cannot = "no flag of its scripts";
        } catch (const ConfigError& error) {
            if (lever.cannot.empty()) lever.cannot = reason_of(error);
        }
    }
}

}  // namespace stepcast
