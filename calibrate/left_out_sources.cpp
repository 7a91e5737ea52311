#include "calibrate/left_out_sources.h"

#include <cmath>
#include <map>
#include <set>

#include "calibrate/kernel_comparisons.h"
#include "import/tables/case_files.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
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

// The frameworks that only this source ran in.
std::set<std::string> known_by(const std::string& source, const Sources& sources) {
    std::set<std::string> alone;
    for (const auto& [framework, of] : sources)
        if (framework != default_framework && of == std::set{source}) alone.insert(framework);
    return alone;
}

// Reads rows whose framework is their source's alone as if nobody had written its file: in the
// framework that the other rules know by their names, or unnamed. A new version of known software
// is that software, a Megatron under a profiler a Megatron.
void forget_names(const std::vector<std::string>& measurements, const Sources& sources,
                  std::vector<std::vector<Comparison>>& files) {
    for (const std::size_t f : indices_of(files)) {
        std::map<std::string, std::vector<Comparison>> without;  // each source
        for (const std::size_t i : indices_of(files[f])) {
            const Case& what = files[f][i].what;
            const std::set<std::string> alone = known_by(what.source, sources);
            if (!files[f][i].refused_because.empty() ||
                !alone.contains(what.experiment.framework.name))
                continue;
            const auto [at, fresh] = without.try_emplace(what.source);
            if (fresh) at->second = read_comparisons(measurements[f], "", "", alone);
            files[f][i] = at->second[i];
        }
    }
}

using Shipped = std::map<std::pair<std::string, std::string>, const ScatterRow*>;

Shipped by_case(const std::vector<ScatterRow>& rows) {
    Shipped found;
    for (const ScatterRow& row : rows)
        found.emplace(std::pair{row.what.source, row.what.case_id}, &row);
    return found;
}

// Whether anybody's forecast of this row simulates what the shipped one did. Other readings are of
// unnamed frameworks, and of users' networks, whose circumstances nothing changes.
bool is_same(const Case& unseen, const ScatterRow& shipped) {
    const bool one_reading = unseen.experiment.framework.may_be.empty();
    return unseen.experiment == shipped.what.experiment &&
           (one_reading || unseen.circumstances == shipped.what.circumstances);
}

// Predicts those rows whose forecast is none of the shipped ones.
void predict_others(const Shipped& shipped, std::vector<Comparison>& file,
                    const Progress& progress) {
    std::vector<Comparison> others;
    std::vector<std::size_t> places;
    for (const std::size_t i : indices_of(file)) {
        const auto known = value_in(shipped, {file[i].what.source, file[i].what.case_id});
        if (known && is_same(file[i].what, **known)) {
            file[i].forecast = (*known)->forecast;
            continue;
        }
        places.push_back(i);
        others.push_back(std::move(file[i]));
    }
    predict_times(others, progress);
    for (const std::size_t i : indices_of(places)) file[places[i]] = std::move(others[i]);
}

std::string left_out_source(const LeftOutRow& row) { return row.of.what.source; }
std::string device_of(const LeftOutRow& row) { return row.of.what.experiment.cluster.gpu.name; }
std::string left_out_kind(const LeftOutRow& row) { return row.kind; }

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
                                      const std::vector<ScatterRow>& shipped,
                                      const Progress& progress) {
    std::vector<std::string> tables;
    std::vector<std::vector<Comparison>> files;
    std::vector<Comparison> all;
    for (const std::string& path : measurements) {
        if (holds_kernels(path)) continue;
        tables.push_back(path);
        files.push_back(read_comparisons(path, ""));
        append(all, files.back());
    }
    forget_names(tables, sources_of_frameworks(all), files);
    const Shipped known = by_case(shipped);
    std::vector<UnseenRow> found;
    for (std::vector<Comparison>& file : files) {
        for (Comparison& c : file)
            if (c.what.circumstances.by == RunBy::recipe) c.what.circumstances.by = RunBy::anyone;
        predict_others(known, file, progress);
        for (Comparison& c : file) {
            const std::string kind = class_name(c.what.experiment, c.what.circumstances);
            if (!c.forecast || kind.empty() || !c.what.circumstances.evidence) continue;
            const double off = std::log(c.what.measured_step / c.forecast->step.p50);
            found.push_back({{c.what, *c.forecast, off}, kind});
        }
    }
    return found;
}

std::vector<ScatterRow> with_unseen(const std::vector<ScatterRow>& shipped,
                                    const std::vector<UnseenRow>& unseen) {
    std::vector<ScatterRow> found;
    for (const ScatterRow& row : shipped)
        if (!of_others(row.what.circumstances)) found.push_back(row);
    for (const UnseenRow& u : unseen)  // a user's own steps stand above
        if (of_others(u.row.what.circumstances)) found.push_back(u.row);
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
    const std::vector<ScatterRow> all = with_unseen(shipped, unseen);
    for (auto& [source, table] : without) {
        std::vector<bool> used;
        for (const ScatterRow& row : all) used.push_back(row.what.source != source);
        table = fit_scatter(all, used);
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
    return table_by(rows, left_out_source) + "\nby device, sources left out\n" +
           table_by(rows, device_of) + "\nby software, sources left out\n" +
           table_by(rows, left_out_kind) +
           "\nforecast as of an unknown source, by widths of the other sources; "
           "constants of devices and host\ncosts of frameworks are the shipped ones, which rows "
           "of some of these sources decided\n";
}

}  // namespace stepcast
