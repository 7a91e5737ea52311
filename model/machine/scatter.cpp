#include "model/machine/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "model/keys/fields.h"
#include "model/presets.h"

namespace stepcast {
namespace {

// What is believed before any row is seen counts as so many blocks.
constexpr double blocks_of_belief = 2;

double joined(double own, double believed, int blocks) {
    return std::sqrt((blocks * own * own + blocks_of_belief * believed * believed) / (blocks + blocks_of_belief));
}

// With blocks left out: what the fit left of them, of several ways to leave out the worst. With none the fit has seen all that it is
// judged by: others lie no nearer to it than its own rows, on top of what is believed.
Scatter joined_with_fit(const Fitted& fitted, const Scatter& believed) {
    constexpr double of_median = 1 / 0.6745, of_mean = 1.2533;  // one standard deviation of a normal error
    Scatter widest, seen = believed;
    bool any = false;
    for (const HeldOutError& error : fitted.errors) {
        if (error.kind != "step") continue;
        const int blocks = left_out_blocks(error.method);
        const double own = p90_of_normal * (blocks > 0 ? of_median * error.median : of_mean * error.mape);
        if (blocks == 0) {
            seen = {std::hypot(believed.faster, own), std::hypot(believed.slower, own)};
            continue;
        }
        any = true;
        widest.faster = std::max(widest.faster, joined(own, believed.faster, blocks));
        widest.slower = std::max(widest.slower, joined(own, believed.slower, blocks));
    }
    return any ? widest : seen;
}

}  // namespace

ScatterTable read_scatter(const std::string& path) { return read_table<ScatterTable>(path, "a scatter file"); }

std::string write_scatter(const ScatterTable& table) {
    std::string text = fmt::format(
        "# How far measured steps lie from forecasts that had not seen them, in logarithms: to p10 (faster) and p90 (slower).\n"
        "# Written by stepcast calibrate --fit scatter; docs/intervals.md says how it is used.\n"
        "date = {}\nsources = {}\n\n# How far the medians of frameworks lie apart: of one that nobody measured.\n"
        "[frameworks]\nfaster = {:.4f}\nslower = {:.4f}\n\n"
        "# One configuration against another of its model: alike, and by the distance of their shares.\n"
        "[pairs]\nnear = {:.4f}\nfar = {:.4f}\n",
        quoted_toml(table.date), value_text(table.sources), table.frameworks.faster, table.frameworks.slower, table.pairs.near,
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

std::string left_out_by(std::string_view what, std::size_t blocks) { return fmt::format("left out by {} ({})", what, blocks); }

int left_out_blocks(std::string_view method) {
    if (!method.starts_with("left out by ")) return 0;
    const auto open = method.find('(');
    int blocks = 0;
    if (open != std::string_view::npos) std::from_chars(method.data() + open + 1, method.data() + method.size(), blocks);
    return std::max(2, blocks);
}

Scatter scatter_of(const ScatterTable& table, const Framework& framework, const Cluster& cluster) {
    // "native" adds nothing to keys that an experiment states: there is no framework to be wrong about.
    const bool known = framework.name.empty() || framework.name == "native";
    const double device = p90_of_normal * cluster.noise.step;
    Scatter found{device, device};
    if (!known) found = {std::hypot(device, table.frameworks.faster), std::hypot(device, table.frameworks.slower)};
    if (framework.fitted) return joined_with_fit(*framework.fitted, found);
    const auto group = std::ranges::find_if(table.groups, [&](const GroupScatter& g) {
        return g.framework == framework.name && g.gpu == cluster.gpu.name;
    });
    if (group == table.groups.end()) return found;
    return {joined(group->scatter.faster, found.faster, group->blocks),
            joined(group->scatter.slower, found.slower, group->blocks)};
}

}  // namespace stepcast
