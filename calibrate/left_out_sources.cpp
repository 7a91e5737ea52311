#include "calibrate/left_out_sources.h"

#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "calibrate/kernel_comparisons.h"
#include "import/tables/case_files.h"
#include "model/base/errors.h"
#include "sim/predict_all.h"

namespace stepcast {
namespace {

using Sources = std::map<std::string, std::set<std::string>>;  // of each framework

Sources sources_of_frameworks(const std::vector<Comparison>& all) {
    Sources found;
    for (const Comparison& c : all)
        if (c.refused_because.empty())
            found[c.what.experiment.framework.name].insert(c.what.source);
    return found;
}

// Replaces the rows whose framework is their source's alone by those of an unnamed one.
void forget_names(const std::vector<std::string>& measurements, const Sources& sources,
                  std::vector<std::vector<Comparison>>& files) {
    for (std::size_t f = 0; f < files.size(); ++f) {
        std::vector<Comparison> unnamed;
        for (std::size_t i = 0; i < files[f].size(); ++i) {
            Case& what = files[f][i].what;
            const auto of = sources.find(what.experiment.framework.name);
            if (!files[f][i].refused_because.empty() || of == sources.end() ||
                of->second.size() > 1 || what.experiment.framework.name == default_framework)
                continue;
            if (unnamed.empty())
                unnamed = read_comparisons(measurements[f], "", std::string(default_framework));
            files[f][i] = unnamed[i];
        }
    }
}

std::vector<BlockErrors> by(const std::vector<UnseenRow>& rows,
                            const std::vector<std::pair<double, bool>>& judged,
                            std::string UnseenRow::*name) {
    std::map<std::string, BlockErrors> blocks;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        BlockErrors& block = blocks[rows[i].*name];
        block.left_out = rows[i].*name;
        block.errors.push_back(judged[i].first);
        block.inside += judged[i].second ? 1 : 0;
    }
    std::vector<BlockErrors> found;
    for (auto& [key, block] : blocks) found.push_back(std::move(block));
    return found;
}

}  // namespace

std::vector<UnseenRow> rows_of_unseen(const std::vector<std::string>& measurements,
                                      const Progress& progress) {
    std::vector<std::string> tables;
    std::vector<std::vector<Comparison>> files;
    std::vector<Comparison> all;
    for (const std::string& path : measurements) {
        if (holds_kernels(path)) continue;
        tables.push_back(path);
        files.push_back(read_comparisons(path, ""));
        all.insert(all.end(), files.back().begin(), files.back().end());
    }
    forget_names(tables, sources_of_frameworks(all), files);
    std::vector<UnseenRow> found;
    for (std::vector<Comparison>& file : files) {
        for (Comparison& c : file)
            if (c.what.circumstances.by == RunBy::recipe) c.what.circumstances.by = RunBy::anyone;
        predict_all(file, progress);
        for (Comparison& c : file) {
            const Experiment& e = c.what.experiment;
            const std::string kind = class_name(e, c.what.circumstances);
            if (!c.forecast || kind.empty() || !c.what.circumstances.evidence) continue;
            const double off = std::log(c.what.measured_step / c.forecast->step.p50);
            found.push_back({{c.what, *c.forecast, off}, c.what.source, e.cluster.gpu.name, kind});
        }
    }
    return found;
}

std::string cross_validate_sources(const std::vector<std::string>& measurements,
                                   const Progress& progress) {
    const std::vector<ScatterRow> shipped = scatter_rows(measurements, progress);
    const std::vector<UnseenRow> rows = rows_of_unseen(measurements, progress);
    std::map<std::string, ScatterTable> without;
    for (const UnseenRow& r : rows) without.try_emplace(r.source);
    if (without.size() < 2)
        throw ConfigError(
            "--cross-validate source: the rows have one source only; expected two "
            "or more");
    for (auto& [source, table] : without) {
        std::vector<bool> used;
        for (const ScatterRow& row : shipped) used.push_back(row.what.source != source);
        table = fit_scatter(shipped, used);
    }
    std::vector<std::pair<double, bool>> judged;
    for (const UnseenRow& r : rows) {
        const Interval step = interval_by(without.at(r.source), r.row);
        const Seconds measured = r.row.what.measured_step;
        judged.emplace_back(std::log(step.p50 / measured),
                            step.p10 <= measured && measured <= step.p90);
    }
    std::string text = block_table(by(rows, judged, &UnseenRow::source), LeftOut::source);
    for (const auto& [name, part] :
         {std::pair("device", &UnseenRow::device), std::pair("software", &UnseenRow::kind)})
        text += fmt::format("\nby {}, sources left out\n", name) +
                block_table(by(rows, judged, part), LeftOut::source);
    return text +
           "\nforecast as of an unknown source, by widths of the other sources; "
           "constants of devices and host\ncosts of frameworks are the shipped ones, which rows "
           "of some of these sources decided\n";
}

}  // namespace stepcast
