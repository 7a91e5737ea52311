#include "import/launch/interpolation.h"

#include <algorithm>

#include "model/base/plain_text.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

std::string told(const Document& d, const std::string& inside, const std::string& owner, int depth);

std::string interpolated(const Document& d, const std::string& text, const std::string& owner,
                         int depth = 0) {
    constexpr int deepest = 10;
    constexpr std::size_t longest = 1000;  // of a name or number; recursive references grow
    const auto open = text.find("${");
    if (open == std::string::npos || depth > deepest) return text;
    int level = 0;
    auto close = open;
    for (; close < text.size(); ++close) {
        if (text[close] == '{') ++level;
        if (text[close] == '}' && --level == 0) break;
    }
    if (close == text.size()) return text;
    const auto by = told(d, text.substr(open + 2, close - open - 2), owner, depth);
    return by.empty() || by.size() > longest
               ? text
               : text.substr(0, open) + by +
                     interpolated(d, text.substr(close + 1), owner, depth + 1);
}

// "multiply:2,${x}"; "" if it cannot be computed.
std::string computed(const Document& d, const std::string& inside, const std::string& owner,
                     int depth) {
    const auto colon = inside.find(':');
    auto comma = colon;
    for (int level = 0; comma < inside.size() && (level > 0 || inside[comma] != ','); ++comma)
        level += inside[comma] == '{' ? 1 : inside[comma] == '}' ? -1 : 0;
    if (comma == inside.size()) return "";
    const auto number = [&](std::size_t from, std::size_t to) {
        const auto text = trimmed(std::string_view(inside).substr(from, to - from), " ");
        return std::atol(interpolated(d, std::string(text), owner, depth + 1).c_str());
    };
    const long x = number(colon + 1, comma), y = number(comma + 1, inside.size());
    constexpr long most = 1L << 31;  // so that a product fits 64 bits
    if (std::min(x, y) < -most || std::max(x, y) > most) return "";
    const auto what = inside.substr(0, colon);
    if (what == "multiply") return std::to_string(x * y);
    if (y != 0 && what == "divide_ceil") return std::to_string((x + y - 1) / y);
    return y != 0 && what.starts_with("divide") ? std::to_string(x / y) : "";
}

// A relative name begins with one dot in the owner's table; each further dot goes one table up.
std::string absolute(std::string name, std::string table) {
    if (!name.starts_with('.')) return name;
    for (; name.starts_with('.'); name.erase(0, 1))
        table.resize(table.find_last_of('.') == std::string::npos ? 0 : table.find_last_of('.'));
    return (table.empty() ? "" : table + ".") + name;
}

// The value of the text between the brackets; "" if it cannot be resolved.
std::string told(const Document& d, const std::string& inside, const std::string& owner,
                 int depth) {
    if (has(inside, ':')) return computed(d, inside, owner, depth);
    const auto name = absolute(inside, owner);
    // the last counts
    const auto stated =
        std::find_if(d.values.rbegin(), d.values.rend(), [&](const NamedValue& each) {
            return each.name == name || "training." + each.name == name;
        });
    return stated == d.values.rend() ? "" : interpolated(d, stated->value, stated->name, depth + 1);
}

}  // namespace

void resolve_references(Document& document) {
    for (NamedValue& value : document.values)
        value.value = interpolated(document, value.value, value.name);
}

}  // namespace stepcast
