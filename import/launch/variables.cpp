#include "import/launch/variables.h"

#include <algorithm>

#include "import/launch/document.h"
#include "import/launch/translate.h"
#include "model/base/plain_text.h"
#include "model/input/key_values.h"

namespace stepcast {
namespace {

bool of_name(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

struct Variable {
    std::string name, otherwise;
    bool has_default = false;
    std::size_t end = 0;  // behind it
};

// At a "$". An empty name: none is there.
Variable variable_at(const std::string& text, std::size_t at) {
    Variable found;
    if (at + 1 >= text.size()) return found;
    if (text[at + 1] != '{') {
        found.end = at + 1;
        while (found.end < text.size() && of_name(text[found.end])) ++found.end;
        found.name = text.substr(at + 1, found.end - at - 1);
        return found;
    }
    const auto close = text.find('}', at);
    if (close == std::string::npos) return found;
    std::string inside = text.substr(at + 2, close - at - 2);
    const bool of_omegaconf = inside.starts_with("oc.env:") || inside.starts_with("env:");
    if (of_omegaconf) inside.erase(0, inside.find(':') + 1);
    auto end = inside.begin();
    while (end != inside.end() && of_name(*end)) ++end;
    std::string rest(end, inside.end());
    found.end = close + 1;
    if (!rest.empty() && rest.front() != (of_omegaconf ? ',' : ':')) return found;
    found.name = std::string(inside.begin(), end);
    // Lower-case words before a colon are functions, as OmegaConf's ${multiply:2,3}.
    const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
    if (!rest.empty() && !of_omegaconf && std::ranges::any_of(found.name, lower)) return {};
    found.has_default = !rest.empty();
    if (found.has_default) rest.erase(0, rest.starts_with(":-") || rest.starts_with(":=") ? 2 : 1);
    found.otherwise = unquoted(std::string(trimmed(rest, " ")));
    return found;
}

}  // namespace

namespace {

// "${variables.max_seq_len}": the document's own value, if that is stated without another one.
void fill_own(Document& document, NamedValue& value) {
    for (auto at = value.value.find("${"); at != std::string::npos;
         at = value.value.find("${", at + 2)) {
        const auto close = value.value.find('}', at);
        if (close == std::string::npos) return;
        const auto name = value.value.substr(at + 2, close - at - 2);
        const auto own = std::find_if(document.values.rbegin(), document.values.rend(),
                                      [&](const NamedValue& other) { return other.name == name; });
        if (name.find('.') == std::string::npos || own == document.values.rend() ||
            own->value.find('$') != std::string::npos)
            continue;
        own->used = true;
        value.value.replace(at, close + 1 - at, own->value);
    }
}

}  // namespace

void fill_variables(Document& document, const std::map<std::string, std::string>& given) {
    for (NamedValue& value : document.values) fill_own(document, value);
    for (NamedValue& value : document.values)
        for (auto at = value.value.find('$'); at != std::string::npos;
             at = value.value.find('$', at)) {
            const Variable v = variable_at(value.value, at);
            const auto known = given.find(v.name);
            const bool own = std::ranges::any_of(
                document.values, [&](const NamedValue& other) { return other.name == v.name; });
            if (v.name.empty() || (known == given.end() && (!v.has_default || own))) {
                ++at;
                continue;
            }
            const auto text = known != given.end() ? known->second : v.otherwise;
            value.value.replace(at, v.end - at, text);
            at += text.size();
        }
}

}  // namespace stepcast
