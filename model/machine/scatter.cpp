#include "model/machine/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "model/errors.h"
#include "model/keys/key_values.h"
#include "model/keys/toml_reader.h"
#include "model/presets.h"

namespace stepcast {
namespace {

// What is believed before any row is seen counts as so many blocks.
constexpr double blocks_of_belief = 2;

const std::vector<std::string> known{"date",           "sources",       "frameworks.faster", "frameworks.slower",
                                     "pairs.near",     "pairs.far",     "group.framework",   "group.gpu",
                                     "group.rows",     "group.blocks",  "group.faster",      "group.slower"};

void read_width(const ConfigValue& value, double& width) {
    read_value(value, width);
    if (!(width >= 0) || !std::isfinite(width)) throw ConfigError("expected 0 or more");
}

bool read_group(const std::string& key, const ConfigValue& value, GroupScatter& g) {
    if (key == "framework")
        read_value(value, g.framework);
    else if (key == "gpu")
        read_value(value, g.gpu);
    else if (key == "rows")
        read_value(value, g.rows);
    else if (key == "blocks")
        read_value(value, g.blocks);
    else if (key == "faster")
        read_width(value, g.scatter.faster);
    else if (key == "slower")
        read_width(value, g.scatter.slower);
    else
        return false;
    return true;
}

bool read_entry(const TomlEntry& entry, ScatterTable& table) {
    constexpr std::string_view group = "group.";
    const auto& [path, value, key_at, value_at] = entry;
    if (path == "date")
        read_value(value, table.date);
    else if (path == "sources") {
        const auto* names = std::get_if<std::vector<ConfigValue>>(&value.value);
        if (!names) throw ConfigError("expected a list of files");
        for (const ConfigValue& name : *names) read_value(name, table.sources.emplace_back());
    } else if (path == "frameworks.faster")
        read_width(value, table.frameworks.faster);
    else if (path == "frameworks.slower")
        read_width(value, table.frameworks.slower);
    else if (path == "pairs.near")
        read_width(value, table.pairs.near);
    else if (path == "pairs.far")
        read_width(value, table.pairs.far);
    else if (path.starts_with(group)) {
        std::size_t index = 0;  // "group.2.gpu" of [[group]]
        const auto [end, error] = std::from_chars(path.data() + group.size(), path.data() + path.size(), index);
        if (error != std::errc() || *end != '.' || index > 10'000) return false;
        if (index >= table.groups.size()) table.groups.resize(index + 1);
        return read_group(std::string(end + 1), value, table.groups[index]);
    } else
        return false;
    return true;
}

double joined(double own, double believed, int blocks) {
    return std::sqrt((blocks * own * own + blocks_of_belief * believed * believed) / (blocks + blocks_of_belief));
}

}  // namespace

ScatterTable read_scatter(const std::string& path) {
    ScatterTable table;
    for (const TomlEntry& entry : read_toml(path).entries) {
        try {
            if (read_entry(entry, table)) continue;
        } catch (const ConfigError& error) {
            throw ConfigError(entry.value_at + ": " + entry.path + ": " + error.what());
        }
        throw ConfigError(entry.key_at + ": \"" + entry.path + "\" is no key of a scatter file" +
                          did_you_mean(entry.path, known));
    }
    return table;
}

std::string write_scatter(const ScatterTable& table) {
    std::string sources;
    for (const std::string& source : table.sources) sources += (sources.empty() ? "" : ", ") + quoted_toml(source);
    std::string text = fmt::format(
        "# How far measured steps lie from forecasts that had not seen them, in logarithms: to p10 (faster) and p90 (slower).\n"
        "# Written by stepcast calibrate --fit scatter; docs/intervals.md says how it is used.\n"
        "date = {}\nsources = [{}]\n\n# How far the medians of frameworks lie apart: of one that nobody measured.\n"
        "[frameworks]\nfaster = {:.4f}\nslower = {:.4f}\n\n"
        "# One configuration against another of its model: alike, and by the distance of their shares.\n"
        "[pairs]\nnear = {:.4f}\nfar = {:.4f}\n",
        quoted_toml(table.date), sources, table.frameworks.faster, table.frameworks.slower, table.pairs.near,
        table.pairs.far);
    for (const GroupScatter& g : table.groups)
        text += fmt::format(
            "\n[[group]]\nframework = {}\ngpu = {}\nrows = {}\nblocks = {}\nfaster = {:.4f}\nslower = {:.4f}\n",
            quoted_toml(g.framework), quoted_toml(g.gpu), g.rows, g.blocks, g.scatter.faster, g.scatter.slower);
    return text;
}

const ScatterTable& shipped_scatter() {
    static const ScatterTable table = [] {
        const auto path = home_folder() + "/model/presets/scatter.toml";
        return std::filesystem::exists(path) ? read_scatter(path) : ScatterTable{};
    }();
    return table;
}

Scatter scatter_of(const ScatterTable& table, const Framework& framework, const Cluster& cluster) {
    // "native" adds nothing to keys that an experiment states: there is no framework to be wrong about.
    const bool known = framework.fitted.has_value() || framework.name.empty() || framework.name == "native";
    const double device = p90_of_normal * cluster.noise.step;
    Scatter found{device, device};
    if (!known) found = {std::hypot(device, table.frameworks.faster), std::hypot(device, table.frameworks.slower)};
    const auto group = std::ranges::find_if(table.groups, [&](const GroupScatter& g) {
        return g.framework == framework.name && g.gpu == cluster.gpu.name;
    });
    if (group == table.groups.end()) return found;
    return {joined(group->scatter.faster, found.faster, group->blocks),
            joined(group->scatter.slower, found.slower, group->blocks)};
}

}  // namespace stepcast
