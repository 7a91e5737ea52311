#include "model/files/plain_text.h"
#include "translate/readers.h"

namespace stepcast {
namespace {

constexpr int deepest = 20;

std::string word(std::string_view text) { return std::string(trimmed(text, " ")); }

class Interpolation {
public:
    explicit Interpolation(Document& document) : d_(document) {}

    std::string value(const std::string& text, const std::string& owner, int depth) {
        const auto open = text.find("${");
        if (open == std::string::npos || depth > deepest) return text;
        int level = 0;
        auto close = open;
        for (; close < text.size(); ++close) {
            if (text[close] == '{') ++level;
            if (text[close] == '}' && --level == 0) break;
        }
        if (close == text.size()) return text;
        const auto inside = text.substr(open + 2, close - open - 2);
        const auto told = named(inside, owner, depth);
        if (told.empty()) return text;
        return text.substr(0, open) + told + value(text.substr(close + 1), owner, depth + 1);
    }

private:
    // "" where it cannot be told.
    std::string named(const std::string& inside, const std::string& owner, int depth) {
        const auto colon = inside.find(':');
        if (colon != std::string::npos) {
            auto comma = colon;
            for (int level = 0; comma < inside.size() && (level > 0 || inside[comma] != ','); ++comma)
                level += inside[comma] == '{' ? 1 : inside[comma] == '}' ? -1 : 0;
            if (comma == inside.size()) return "";
            const auto a = value(word(std::string_view(inside).substr(colon + 1, comma - colon - 1)), owner, depth + 1),
                       b = value(word(std::string_view(inside).substr(comma + 1)), owner, depth + 1);
            const long x = std::atol(a.c_str()), y = std::atol(b.c_str());
            const auto what = inside.substr(0, colon);
            if (what == "multiply") return std::to_string(x * y);
            if (y != 0 && what == "divide_ceil") return std::to_string((x + y - 1) / y);
            if (y != 0 && what.starts_with("divide")) return std::to_string(x / y);
            return "";
        }
        auto name = inside;
        if (auto table = owner; name.starts_with('.')) {  // one dot: next to the owner; each further one a table up
            for (; name.starts_with('.'); name.erase(0, 1)) table.resize(table.find_last_of('.') == std::string::npos ? 0 : table.find_last_of('.'));
            name = (table.empty() ? "" : table + ".") + name;
        }
        for (const auto& each : d_.values)
            if (each.name == name || "training." + each.name == name) return value(each.value, each.name, depth + 1);
        return "";
    }

    Document& d_;
};

}  // namespace

void interpolate(Document& document) {
    Interpolation interpolation(document);
    for (auto& value : document.values) value.value = interpolation.value(value.value, value.name, 0);
}

}  // namespace stepcast
