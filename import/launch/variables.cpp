#include "import/launch/variables.h"

#include <algorithm>

#include "import/launch/document.h"
#include "import/launch/translate.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
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

// ${TP:8}, ${oc.env:TP,8}: from the $ at `at` to the brace at `close`.
Variable variable_in_braces(const std::string& text, std::size_t at, std::size_t close) {
    Variable found;
    std::string inside = text.substr(at + 2, close - at - 2);
    const bool of_omegaconf = inside.starts_with("oc.env:") || inside.starts_with("env:");
    if (of_omegaconf) inside.erase(0, inside.find(':') + 1);
    const auto end = std::ranges::find_if_not(inside, of_name);
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

// At a "$". An empty name: none is there.
Variable variable_at(const std::string& text, std::size_t at) {
    if (at + 1 >= text.size()) return {};
    if (text[at + 1] == '{') {
        const auto close = text.find('}', at);
        return close == std::string::npos ? Variable() : variable_in_braces(text, at, close);
    }
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at) + 1,
               end = std::find_if_not(begin, text.end(), of_name);
    return {{begin, end}, "", false, as_index(end - text.begin())};
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
        if (!has(name, '.') || own == document.values.rend() || has(own->value, '$')) continue;
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
            const auto known = value_in(given, v.name);
            const bool own = std::ranges::any_of(
                document.values, [&](const NamedValue& other) { return other.name == v.name; });
            if (v.name.empty() || (!known && (!v.has_default || own))) {
                ++at;
                continue;
            }
            const auto text = known ? *known : v.otherwise;
            value.value.replace(at, v.end - at, text);
            at += text.size();
        }
}

}  // namespace stepcast
