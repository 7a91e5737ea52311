#include "calibrate/left_out_sources.h"

#include <cmath>
#include <map>
#include <set>

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

std::string source_of(const LeftOutRow& row) { return row.of.what.source; }
std::string device_of(const LeftOutRow& row) { return row.of.what.experiment.cluster.gpu.name; }
std::string kind_of(const LeftOutRow& row) { return row.kind; }

std::string table_by(const std::vector<LeftOutRow>& rows, std::string (*name)(const LeftOutRow&)) {
    std::map<std::string, BlockErrors> blocks;
    for (const LeftOutRow& row : rows) {
        BlockErrors& block = blocks[name(row)];
        block.left_out = name(row);
        const Interval& step = row.of.forecast->step;
        const Seconds measured = row.of.what.measured_step;
        block.errors.push_back(std::log(step.p50 / measured));
        block.inside += step.p10 <= measured && measured <= step.p90 ? 1 : 0;
    }
    std::vector<BlockErrors> found;
    for (auto& [key, block] : blocks) found.push_back(std::move(block));
    return block_table(found, LeftOut::source);
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
            const std::string kind = class_name(c.what.experiment, c.what.circumstances);
            if (!c.forecast || kind.empty() || !c.what.circumstances.evidence) continue;
            const double off = std::log(c.what.measured_step / c.forecast->step.p50);
            found.push_back({{c.what, *c.forecast, off}, kind});
        }
    }
    return found;
}

std::vector<LeftOutRow> left_out_rows(const std::vector<ScatterRow>& shipped,
                                      const std::vector<UnseenRow>& unseen) {
    std::map<std::string, ScatterTable> without;
    for (const UnseenRow& r : unseen) without.try_emplace(r.row.what.source);
    if (without.size() < 2)
        throw ConfigError(
            "--cross-validate source: the rows have one source only; expected two "
            "or more");
    for (auto& [source, table] : without) {
        std::vector<bool> used;
        for (const ScatterRow& row : shipped) used.push_back(row.what.source != source);
        table = fit_scatter(shipped, used);
    }
    std::vector<LeftOutRow> found;
    for (const auto& [row, kind] : unseen) {
        Comparison& of = found.emplace_back(LeftOutRow{{row.what, row.forecast, {}, ""}, kind}).of;
        of.forecast->step = interval_by(without.at(row.what.source), row);
        if (of.what.evidence != Evidence::fitted) of.what.evidence = Evidence::unseen;
    }
    return found;
}

std::string left_out_tables(const std::vector<LeftOutRow>& rows) {
    return table_by(rows, source_of) + "\nby device, sources left out\n" +
           table_by(rows, device_of) + "\nby software, sources left out\n" +
           table_by(rows, kind_of) +
           "\nforecast as of an unknown source, by widths of the other sources; "
           "constants of devices and host\ncosts of frameworks are the shipped ones, which rows "
           "of some of these sources decided\n";
}

}  // namespace stepcast
