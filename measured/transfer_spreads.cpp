#include "measured/transfer_spreads.h"

#include <fmt/format.h>

#include <cmath>

#include "model/base/lists.h"
#include "model/base/text_search.h"
#include "model/input/key_values.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"

namespace stepcast {
namespace {

constexpr double of_unknown = 0.25;  // for a class that no left-out machine has

std::string table_text(const char* name, const std::map<std::string, double>& spreads) {
    std::string text = fmt::format("\n[{}]\n", name);
    // no row falls out
    for (const auto& [what, spread] : spreads)
        text += fmt::format("{} = {:.3f}\n", what, std::ceil(1e3 * spread) / 1e3);
    return text;
}

}  // namespace

std::string transfer_class(std::string_view kind) {
    if (has(kind, "gemm")) return "products";
    if (has(kind, "attention")) return "attention";
    if (kind == "moe_layer") return "experts";
    if (kind == "cast") return "casts";
    return has(kind, "dispatch") || has(kind, "combine") ? "dispatch" : "collectives";
}

double transfer_spread(std::string_view kind, bool alike) {
    static const TransferSpreads shipped =
        read_transfer_spreads(home_folder() + "/model/presets/transfer.toml");
    const auto& spreads = alike ? shipped.alike : shipped.alone;
    const auto at = value_in(spreads, transfer_class(kind));
    return at ? *at : of_unknown;
}

TransferSpreads read_transfer_spreads(const std::string& path) {
    TransferSpreads spreads;
    for (const TomlEntry& entry : read_toml(path).entries) {
        const auto dot = entry.path.find('.');
        if (dot == std::string::npos) continue;
        const std::string table = entry.path.substr(0, dot);
        read_value(entry.value,
                   (table == "alike" ? spreads.alike : spreads.alone)[entry.path.substr(dot + 1)]);
    }
    return spreads;
}

std::string write_transfer_spreads(const TransferSpreads& spreads, const std::string& date) {
    return fmt::format(
               "# How far forecasts of a machine without measurements are off, as standard "
               "deviations of a logarithm: each measured machine\n"
               "# from its nameplate and the constants of the others, the worst of each class. Of "
               "machines with one of their fabric and generation\n"
               "# among those (alike), and of the others (alone).\n"
               "# Written by stepcast calibrate --cross-validate device --out; "
               "notes/kernel-laws.md.\ndate = \"{}\"\n",
               date) +
           table_text("alike", spreads.alike) + table_text("alone", spreads.alone);
}

}  // namespace stepcast
