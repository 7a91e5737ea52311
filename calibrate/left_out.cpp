#include "calibrate/left_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "calibrate/fit.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/refuse.h"

namespace stepcast {

LeftOut parse_block(std::string_view text) {
    if (text == "block" || text == "fold")
        refuse(
            "--cross-validate {}: is of tables of kernels; of measured steps expected "
            "model, ranks, framework, device or source",
            text);
    return at_place("--cross-validate", [&] { return parse_name<LeftOut>(text); });
}

std::string block_of(const Case& what, LeftOut by) {
    const Experiment& e = what.experiment;
    switch (by) {
        case LeftOut::model: return e.workload.name;
        case LeftOut::ranks: return fmt::format("{} ranks", rank_count(e.cluster));
        case LeftOut::framework: return e.framework.name;
        case LeftOut::device: return e.cluster.gpu.name;
        case LeftOut::source: return what.source;
    }
    return "";
}

std::vector<BlockErrors> leave_out_in_turn(
    const std::vector<std::string>& names,
    const std::function<PredictLeftOut(const std::vector<bool>&)>& without,
    const std::function<bool()>& enough) {
    std::vector<BlockErrors> found;
    for (const std::string& name : std::set(names.begin(), names.end())) {
        if (enough && enough()) break;
        std::vector<bool> of_block;
        for (const std::string& other : names) of_block.push_back(other == name);
        const PredictLeftOut predict = without(of_block);
        BlockErrors& block = found.emplace_back(BlockErrors{name, {}, 0});
        for (const std::size_t i : indices_of(names)) {
            if (!of_block[i]) continue;
            const auto [error, inside] = predict(i);
            block.errors.push_back(error);
            block.inside += inside ? 1 : 0;
        }
    }
    return found;
}

std::string block_table(const std::vector<BlockErrors>& blocks, LeftOut by) {
    std::string text = fmt::format("  {:<34} {:>5} {:>8} {:>8} {:>8} {:>9} {:>8}\n",
                                   fmt::format("left out by {}", to_string(by)), "rows", "median",
                                   "mean", "bias", "worst", "inside");
    const auto line = [](const std::string& name, const HeldOutError& e, int inside) {
        return fmt::format(
            "  {:<34} {:>5} {:>6.1f} % {:>6.1f} % {:>+6.1f} % {:>+7.1f} % {:>6.0f} %\n",
            name.substr(0, 34), e.samples, 100 * e.median, 100 * e.mape, 100 * e.bias,
            100 * e.worst, 100.0 * inside / std::max(1, e.samples));
    };
    std::vector<double> all;
    int inside = 0;
    for (const BlockErrors& block : blocks) {
        text += line(block.left_out, summary_of(block.errors, ""), block.inside);
        append(all, block.errors);
        inside += block.inside;
    }
    return text + line("all", summary_of(all, ""), inside);
}

}  // namespace stepcast
