#include "sim/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/input/fields.h"
#include "model/input/presets.h"

namespace stepcast {
namespace {

// Weight of the prior belief, as a number of blocks.
constexpr double blocks_of_belief = 2;

const std::string left_out_words = "left out by ";

constexpr double of_mean = 1.2533;  // sqrt(pi / 2): one standard deviation of a normal error

double joined_width(double own, double believed, double blocks) {
    return std::sqrt((blocks * own * own + blocks_of_belief * believed * believed) /
                     (blocks + blocks_of_belief));
}

// Interval end for a new block after n blocks were left out in turn. It treats errors as normal
// with unknown variance and a conjugate prior (Gelman et al., Bayesian Data Analysis, 3.3):
// Student's t of n + 2 degrees of freedom times the joined deviation. The belief is given as an
// interval end, which has 2 degrees of freedom. A left-out block is compared with a mean over n - 1
// others, a new one with a mean over n, so its square is scaled by (1 + 1/n) / (1 + 1/(n - 1)) = 1
// - 1/n^2.
double end_after(int blocks, double deviation, double believed) {
    const double n = blocks, own = deviation * std::sqrt(1 - 1 / (n * n));
    return student_p90(n + blocks_of_belief) *
           joined_width(own, believed / student_p90(blocks_of_belief), n);
}

const HeldOutError* step_error(const Fitted& fitted, const std::string& begins) {
    const auto found = first_where(fitted.errors, [&](const HeldOutError& e) {
        return e.kind == "step" && e.method.starts_with(begins);
    });
    return found;
}

// True if `ranks` is within the range of ranks that the rows ran on. Files that do not state a
// range pass.
bool among_ranks(const Fitted& fitted, int ranks) {
    return std::ranges::none_of(fitted.ranges, [&](const FittedRange& r) {
        return r.what == ranks_range && (ranks < r.least || r.most < ranks);
    });
}

// The worse error of leaving out models and of leaving out numbers of ranks. It uses mean errors,
// not medians: for normal and exponential tails alike a fifth of the errors exceeds 1.6 times the
// mean, and a failed block must count. If no block could be left out, the fit has seen its judges:
// assume the error of such fits elsewhere (`few_shot`), and at least the error on its own rows.
Scatter joined_with_fit(const Fitted& fitted, const Scatter& believed, const Scatter& few_shot,
                        int ranks) {
    const HeldOutError* const own = step_error(fitted, "fitted");
    const double seen = own ? p90_of_normal * of_mean * own->mape : 0;
    Scatter widest;
    for (const auto* way : {"model", "ranks"}) {
        const HeldOutError* const error = step_error(fitted, left_out_words + way);
        if (!error && way == std::string_view("ranks") && among_ranks(fitted, ranks)) continue;
        const auto end = [&](double belief, double unseen) {
            return error ? end_after(left_out_blocks(error->method), of_mean * error->mape, belief)
                         : std::max({belief, unseen, seen});
        };
        widest.faster = std::max(widest.faster, end(believed.faster, few_shot.faster));
        widest.slower = std::max(widest.slower, end(believed.slower, few_shot.slower));
    }
    return widest;
}

// Of a device whose constants were fitted to whole runs: the error of each run by a fit without it.
double of_runs_left_out(const Cluster& cluster, double believed) {
    const HeldOutError* const error =
        cluster.fitted ? step_error(*cluster.fitted, "leave-one-out") : nullptr;
    return error ? end_after(error->samples, of_mean * error->mape, believed) : 0;
}

// False for files without block counts; the measured scatter of framework and device is then more
// informative.
bool counts_blocks(const Fitted& fitted) {
    return std::ranges::none_of(fitted.errors, [](const HeldOutError& e) {
        return e.method.starts_with(left_out_words) && !e.method.ends_with(')');
    });
}

}  // namespace

ScatterTable read_scatter(const std::string& path) {
    return read_table<ScatterTable>(path, "a scatter file");
}

std::string write_scatter(const ScatterTable& table) {
    std::string text = fmt::format(
        "# How far measured steps lie from forecasts that had not seen them, in logarithms: to p10 "
        "(faster) and p90 (slower).\n"
        "# Written by stepcast calibrate --fit scatter; docs/model.md says how it is used.\n"
        "date = {}\nsources = {}\n# Frameworks whose files describe nobody's recipe: class "
        "untuned.\nuntuned = {}\n\n# How far the medians of frameworks lie apart: of one that "
        "nobody measured.\n"
        "[frameworks]\nfaster = {:.4f}\nslower = {:.4f}\n\n"
        "# Other models' steps in a framework whose costs were fitted to steps of one: by --fit "
        "few-shot, others keep it.\n"
        "[few_shot]\nfaster = {:.4f}\nslower = {:.4f}\n\n"
        "# One configuration against another of its model: alike, and by the distance of their "
        "shares.\n"
        "[pairs]\nnear = {:.4f}\nfar = {:.4f}\n\n"
        "# What a node of users who do not state its network reaches: set by hand on nine "
        "threads.\n"
        "[network]\nrate = {}\nslow = {}\n\n"
        "# Logarithms of measured peaks of memory over forecasts, one standard deviation: of the "
        "frameworks in\n# whose tables they were measured, and of a source of peaks left out "
        "(notes/published-steps.md).\n"
        "[memory]\nmeasured = {:.4f}\nother = {:.4f}\nframeworks = {}\n\n"
        "# Steps of those who follow no published recipe, each source read as if nothing knew it: "
        "the way to p10 and\n# p90. A trait widens its steps' class, in squares.\n",
        quoted_toml(table.date), value_text(table.sources), value_text(table.untuned),
        table.frameworks.faster, table.frameworks.slower, table.few_shot.faster,
        table.few_shot.slower, table.pairs.near, table.pairs.far,
        quoted_toml(value_text(table.network.rate)), quoted_toml(value_text(table.network.slow)),
        table.memory.measured, table.memory.other, value_text(table.memory.frameworks));
    const auto add = [&](const char* what, const ClassScatter& c) {
        text += fmt::format(
            "\n[[{}]]\nname = {}\nrows = {}\nsources = {}\nfaster = {:.4f}\nslower = {:.4f}\n",
            what, quoted_toml(c.name), c.rows, c.sources, c.scatter.faster, c.scatter.slower);
    };
    for (const ClassScatter& c : table.classes) add("class", c);
    for (const ClassScatter& t : table.traits) add("trait", t);
    for (const GroupScatter& g : table.groups)
        text += fmt::format(
            "\n[[group]]\nframework = {}\ngpu = {}\nrows = {}\nblocks = {}\nfaster = "
            "{:.4f}\nslower = {:.4f}\n",
            quoted_toml(g.framework), quoted_toml(g.gpu), g.rows, g.blocks, g.scatter.faster,
            g.scatter.slower);
    return text;
}

const ScatterTable& shipped_scatter() {
    static const ScatterTable table = [] {
        const auto path = home_folder() + "/model/presets/scatter.toml";
        return std::filesystem::exists(path) ? read_scatter(path) : ScatterTable{};
    }();
    return table;
}

double student_p90(double freedom) {
    return boost::math::quantile(boost::math::students_t(freedom), 0.9);
}

std::string left_out_by(std::string_view what, std::size_t blocks) {
    return fmt::format("{}{} ({})", left_out_words, what, blocks);
}

int left_out_blocks(std::string_view method) {
    if (!method.starts_with(left_out_words)) return 0;
    const auto open = method.find('(');
    int blocks = 0;
    if (open != std::string_view::npos)
        std::from_chars(method.data() + open + 1, method.data() + method.size(), blocks);
    return std::max(2, blocks);
}

Scatter scatter_of(const ScatterTable& table, const Framework& framework, const Cluster& cluster) {
    // "native" changes no key that an experiment states, so there is no framework error.
    const bool known = framework.name.empty() || framework.name == "native";
    double device = p90_of_normal * cluster.noise.step;
    if (known) device = std::max(device, of_runs_left_out(cluster, device));
    Scatter found{device, device};
    if (!known)
        found = {std::hypot(device, table.frameworks.faster),
                 std::hypot(device, table.frameworks.slower)};
    const auto group = first_where(table.groups, [&](const GroupScatter& g) {
        return g.framework == framework.name && g.gpu == cluster.gpu.name;
    });
    if (framework.fitted && (!group || counts_blocks(*framework.fitted)))
        return joined_with_fit(*framework.fitted, found, table.few_shot, rank_count(cluster));
    if (!group) return found;
    // Few models narrow what is believed, but not below their own errors.
    const auto end = [&](double own, double believed) {
        return std::max(own, joined_width(own, believed, group->blocks));
    };
    return {end(group->scatter.faster, found.faster), end(group->scatter.slower, found.slower)};
}

}  // namespace stepcast
