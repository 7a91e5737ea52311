#include "import/launch/primus.h"

#include <algorithm>

#include <fmt/format.h>

#include "import/launch/megatron.h"
#include "import/launch/megatron_source.h"
#include "model/base/lists.h"
#include "model/base/text_search.h"

namespace stepcast {

bool is_primus(const Document& d) {
    return std::ranges::any_of(d.values, [](const NamedValue& v) {
        return v.name.starts_with("modules.") && has(v.name, ".overrides.");
    });
}

Translation translate_primus(Document d) {
    std::vector<std::string> elsewhere;
    for (NamedValue& value : d.values) {
        if (!value.name.starts_with("modules.")) continue;
        const auto section = value.name.find('.', 8);
        const auto key = section == std::string::npos ? "" : value.name.substr(section + 1);
        if (key.starts_with("overrides.")) value.name = key.substr(10);
        if (key == "framework" && value.value != "megatron")
            wrong(value,
                  "megatron, whose keys are read here; overrides of torchtitan read as its own "
                  "TOML with the same tables");
        if (key == "model" || key == "config") {
            elsewhere.push_back(fmt::format("{} ({}): {} is another file; its keys are not read{}",
                                            value.name, value.at, value.value,
                                            key == "model" ? ", name the model with --model" : ""));
            value.used = true;
        }
        if (key == "framework") value.used = true;
    }
    Translation t = translate_megatron(d, MegatronDialect::lm, 0);
    t.format = "Primus, Megatron-LM's keys";
    std::erase_if(t.open,
                  [](const std::string& line) { return line.starts_with("layers and widths"); });
    append(t.open, elsewhere);
    if (!t.find("workload.layers") && std::ranges::none_of(elsewhere, [](const std::string& line) {
            return has(line, "--model");
        }))
        t.open.push_back("layers and widths: not in this file; name the model with --model");
    return t;
}

}  // namespace stepcast
