#include "translate/shell_parts.h"

#include <algorithm>

namespace stepcast {

std::optional<bool> decided(std::optional<bool> a, bool either, std::optional<bool> b) {
    if (a == std::optional(either) || b == std::optional(either)) return either;
    return a && b ? std::optional(!either) : std::nullopt;
}

std::optional<bool> shell_test(std::vector<std::string> w) {
    for (const char* join : {"||", "&&"})
        if (const auto at = std::ranges::find(w, join); at != w.end())
            return decided(shell_test({w.begin(), at}), join[0] == '|', shell_test({at + 1, w.end()}));
    bool negated = false;
    while (!w.empty() && w[0] == "!") {
        negated = !negated;
        w.erase(w.begin());
    }
    std::optional<bool> result;
    if (w.size() == 1) result = !w[0].empty();
    if (w.size() == 2 && w[0] == "-z") result = w[1].empty();
    if (w.size() == 2 && w[0] == "-n") result = !w[1].empty();
    if (w.size() == 3) {
        const long a = std::atol(w[0].c_str()), b = std::atol(w[2].c_str());
        if (w[1] == "==" || w[1] == "=") result = fits_pattern(w[0], w[2]);
        if (w[1] == "!=") result = !fits_pattern(w[0], w[2]);
        if (w[1] == "-eq") result = a == b;
        if (w[1] == "-ne") result = a != b;
        if (w[1] == "-gt" || w[1] == ">") result = a > b;
        if (w[1] == "-ge") result = a >= b;
        if (w[1] == "-lt" || w[1] == "<") result = a < b;
        if (w[1] == "-le") result = a <= b;
    }
    return result ? std::optional(*result != negated) : std::nullopt;
}

}  // namespace stepcast
