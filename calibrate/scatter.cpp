#include "calibrate/scatter.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "calibrate/building_blocks.h"
#include "calibrate/kernel_comparisons.h"
#include "calibrate/left_out_sources.h"
#include "calibrate/step_fit.h"
#include "import/tables/case_files.h"
#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/base/whole_files.h"
#include "model/records/measurements.h"
#include "sim/interval.h"
#include "sim/predict_all.h"

namespace stepcast {
namespace {

using ScatterRows = std::vector<const ScatterRow*>;
constexpr double tail = 0.1;  // share of the rows beyond each end of an interval

std::pair<std::string, std::string> group_of(const ScatterRow& row) {
    return {row.what.experiment.framework.name, row.what.experiment.cluster.gpu.name};
}

std::map<std::pair<std::string, std::string>, ScatterRows> groups_of(
    const std::vector<ScatterRow>& rows, const std::vector<bool>& used) {
    std::map<std::pair<std::string, std::string>, ScatterRows> groups;
    for (const std::size_t i : indices_of(rows))
        if (used[i] && !of_others(rows[i].what.circumstances))
            groups[group_of(rows[i])].push_back(&rows[i]);
    return groups;
}

// How far an end of the row's interval lies from its median with this width.
double end_of(const ScatterRow& row, double width, bool slower) {
    if (row.known.doubts != row.forecast.doubts) row.known = {row.forecast.doubts, {}};
    const auto [end, fresh] = row.known.ends.try_emplace({width, slower});
    if (!fresh) return end->second;
    Doubts doubts = row.forecast.doubts;
    (slower ? doubts.slower : doubts.faster) = width;
    return end->second = reach_of_interval(doubts, slower);
}

// The smallest width that leaves at most `share` of the rows beyond it.
double least_width(double share, const std::function<double(double width)>& beyond) {
    double low = 0, high = 8;
    if (beyond(low) <= share) return low;
    while (high - low > 1e-4) {
        const double middle = (low + high) / 2;
        (beyond(middle) <= share ? high : low) = middle;
    }
    return high;
}

struct WeightedRow {
    const ScatterRow* row;
    double weight;
};

// Of n rows of one kind (a source, a model) each has the weight 1 / sqrt(n): they err alike, but
// more of them say more.
template <class Kind>
std::vector<WeightedRow> weighted(const ScatterRows& rows, const Kind& kind) {
    std::map<std::string, double> of_kind;
    for (const ScatterRow* row : rows) ++of_kind[kind(*row)];
    std::vector<WeightedRow> found;
    for (const ScatterRow* row : rows)
        found.push_back({row, 1 / std::sqrt(of_kind.at(kind(*row)))});
    return found;
}

double& end_in(Scatter& s, bool slower) { return slower ? s.slower : s.faster; }

// The width that, in squares with what a row has otherwise, leaves a tenth of the weight beyond it.
template <class Otherwise>
double width_of(const std::vector<WeightedRow>& rows, bool slower, const Otherwise& otherwise) {
    return least_width(tail, [&](double width) {
        double all = 0, beyond = 0;
        for (const WeightedRow& r : rows) {
            const double end = end_of(*r.row, std::hypot(width, otherwise(*r.row)), slower);
            all += r.weight;
            if (slower ? r.row->off > end : r.row->off < end) beyond += r.weight;
        }
        return beyond / all;
    });
}
double width_of(const std::vector<WeightedRow>& rows, bool slower) {
    return width_of(rows, slower, [](const ScatterRow&) { return 0.0; });
}

std::string source_of(const ScatterRow& row) { return row.what.source; }
std::string model_of(const ScatterRow& row) { return block_of(row.what, LeftOut::model); }

// The next step may be of another model.
Scatter scatter_of_group(const ScatterRows& of) {
    const std::vector<WeightedRow> rows = weighted(of, model_of);
    return {width_of(rows, false), width_of(rows, true)};
}

// The next source is one more than those that the widths are of: Student's t of that many.
double for_next_source(double width, std::size_t sources) {
    return width * student_p90(real(sources)) / p90_of_normal;
}

std::size_t sources_of(const ScatterRows& rows) {
    std::set<std::string> sources;
    for (const ScatterRow* row : rows) sources.insert(source_of(*row));
    return sources.size();
}

// Of the rows without a trait, if there are any. No narrower than the medians of recipes'
// frameworks lie apart.
ClassScatter scatter_of_class(const std::string& name, const ScatterRows& of,
                              const Scatter& least) {
    ScatterRows plain;
    for (const ScatterRow* row : of)
        if (traits_of(row->what.experiment).empty()) plain.push_back(row);
    const ScatterRows& read = plain.empty() ? of : plain;
    const std::vector<WeightedRow> rows = weighted(read, source_of);
    const auto end = [&](bool slower, double at_least) {
        return std::max(at_least, for_next_source(width_of(rows, slower), sources_of(read)));
    };
    return {name,
            as_int(of.size()),
            as_int(sources_of(of)),
            {end(false, least.faster), end(true, least.slower)}};
}

// What each trait adds to the classes of its rows, beside their other traits: each in turn, three
// times, after which none of them moves.
void fit_traits(const std::map<std::string, ScatterRows>& by_trait, ScatterTable& table) {
    constexpr int turns = 3;
    for (const auto& [name, of] : by_trait)
        table.traits.push_back({name, as_int(of.size()), as_int(sources_of(of)), {}});
    for (int turn = 0; turn < turns; ++turn)
        for (ClassScatter& trait : table.traits) {
            const ScatterRows& of = by_trait.at(trait.name);
            trait.scatter = {};
            std::map<const ScatterRow*, Scatter> others;
            for (const ScatterRow* row : of)
                others[row] =
                    class_of(table, row->what.experiment, row->what.circumstances)->scatter;
            Scatter width;
            for (const bool slower : {false, true}) {
                const double found =
                    width_of(weighted(of, source_of), slower,
                             [&](const ScatterRow& r) { return end_in(others.at(&r), slower); });
                end_in(width, slower) = for_next_source(found, sources_of(of));
            }
            trait.scatter = width;
        }
    if (const auto kept = first_with(shipped_scatter().traits, first_contact, &ClassScatter::name))
        table.traits.push_back(*kept);  // scripts/first-contact.py
}

// Rows with a known cause are no evidence of how far the next one is off.
void fit_classes(const std::vector<ScatterRow>& rows, const std::vector<bool>& used,
                 ScatterTable& table) {
    std::map<std::string, ScatterRows> by_class, by_trait;
    for (const std::size_t i : indices_of(rows)) {
        const Case& what = rows[i].what;
        const std::string name = class_name(what.experiment, what.circumstances);
        if (!used[i] || !of_others(what.circumstances) || !what.circumstances.evidence ||
            name.empty())
            continue;
        by_class[name].push_back(&rows[i]);
        for (const std::string& trait : traits_of(what.experiment))
            by_trait[trait].push_back(&rows[i]);
    }
    for (const auto& [name, of] : by_class)
        table.classes.push_back(scatter_of_class(name, of, table.frameworks));
    fit_traits(by_trait, table);
}

int blocks_in(const ScatterRows& rows) {
    std::set<std::string> blocks;
    for (const ScatterRow* row : rows) blocks.insert(model_of(*row));
    return as_int(blocks.size());
}

struct Pair {
    double distance, off, weight;
};

std::vector<Pair> pairs_of(const std::vector<ScatterRow>& rows, const std::vector<bool>& used) {
    std::map<std::tuple<std::string, std::string, std::string, int>, ScatterRows> alike;
    for (const std::size_t i : indices_of(rows)) {
        const auto [framework, gpu] = group_of(rows[i]);
        if (used[i] && !of_others(rows[i].what.circumstances))
            alike[{rows[i].what.series, framework, gpu,
                   rank_count(rows[i].what.experiment.cluster)}]
                .push_back(&rows[i]);
    }
    std::vector<Pair> pairs;
    for (const auto& [what, of] : alike)
        for (const std::size_t i : indices_of(of))
            for (std::size_t j = 0; j < i; ++j)
                pairs.push_back({distance(of[i]->forecast.basis, of[j]->forecast.basis),
                                 std::abs(of[i]->off - of[j]->off), 1 / real(of.size())});
    return pairs;
}

// Differences are taken without sign, so both tails together: a fifth of the pairs lies beyond.
PairScatter pair_scatter(const std::vector<Pair>& pairs) {
    constexpr double close = 0.05;
    const auto share_beyond = [&](auto of, auto reach) {
        double all = 0, beyond = 0;
        for (const Pair& p : pairs) {
            if (!of(p)) continue;
            all += p.weight;
            if (p.off > reach(p)) beyond += p.weight;
        }
        return all > 0 ? beyond / all : 0;
    };
    PairScatter found;
    found.near = least_width(2 * tail, [&](double w) {
        return share_beyond([](const Pair& p) { return p.distance < close; },
                            [&](const Pair&) { return w; });
    });
    found.far = least_width(2 * tail, [&](double w) {
        return share_beyond([](const Pair& p) { return p.distance >= close; },
                            [&](const Pair& p) { return std::hypot(found.near, w * p.distance); });
    });
    return found;
}

// Tests how far fits of a framework's costs to few steps are off on models that they have not seen.

constexpr int least_rows = 3;  // fewest rows of a model for a fit to them

struct Off {
    double off, weight;
};

// Rows of an unnamed framework ran in many, so a fit to some says nothing of the others.
bool of_named_framework(const Experiment& e) {
    return !e.framework.name.empty() && e.framework.name != "native" &&
           e.framework.name != default_framework && e.workload.kind == Workload::Kind::transformer;
}

// The rows, each read with the default framework as if nobody had named its own, grouped by (its
// own framework, device).
std::map<std::pair<std::string, std::string>, std::vector<Case>> from_default(
    const std::vector<std::string>& measurements, const std::vector<ScatterRow>& rows) {
    std::map<std::pair<std::string, std::string>, std::pair<std::string, std::string>> own;
    for (const ScatterRow& row : rows)
        if (of_named_framework(row.what.experiment))
            own[{row.what.source, row.what.case_id}] = group_of(row);
    std::map<std::pair<std::string, std::string>, std::vector<Case>> groups;
    for (const std::string& path : measurements) {
        if (holds_kernels(path)) continue;
        for (Comparison& c : read_comparisons(path, "", std::string(default_framework))) {
            const auto group = value_in(own, {c.what.source, c.what.case_id});
            if (group && c.refused_because.empty()) groups[*group].push_back(std::move(c.what));
        }
    }
    return groups;
}

// Fits to the rows of each model in turn and returns log(measured / predicted) of all rows of the
// other models.
std::vector<double> errors_on_others(std::vector<Case>& cases) {
    std::map<std::string, int> models;
    for (const Case& c : cases) ++models[block_of(c, LeftOut::model)];
    std::vector<double> offs;
    if (models.size() < 2) return offs;
    CalibrationRequest request;
    request.target = FitTarget::framework;
    const StepFit fit = fitted_to(cases, request, {});
    if (!any_determined(fit, true)) return offs;
    for (const auto& [model, rows] : models) {
        if (rows < least_rows) continue;
        std::vector<bool> others;
        for (const Case& c : cases) others.push_back(block_of(c, LeftOut::model) != model);
        const RowErrors there = predicted_without(fit, others).second;
        for (const std::size_t i : indices_of(cases))
            if (others[i]) offs.push_back(-there.errors[i]);
    }
    return offs;
}

// The smallest width that leaves at most a tenth of the weight beyond it, on the slower (sign 1) or
// faster side (-1).
double weighted_end(std::vector<Off> offs, double sign) {
    double all = 0, beyond = 0;
    for (const Off& o : offs) all += o.weight;
    std::ranges::sort(offs, std::ranges::greater{}, [&](const Off& o) { return sign * o.off; });
    for (const Off& o : offs) {
        beyond += o.weight;
        if (beyond > tail * all) return std::max(0.0, sign * o.off);
    }
    return 0;
}

}  // namespace

std::vector<ScatterRow> scatter_rows(const std::vector<std::string>& measurements,
                                     const Progress& progress) {
    std::vector<ScatterRow> rows;
    for (const std::string& path : measurements) {
        if (holds_kernels(path)) continue;
        std::vector<Comparison> all = read_comparisons(path, "");
        predict_times(all, progress);
        for (Comparison& c : all)
            if (c.forecast)
                rows.push_back({std::move(c.what), *c.forecast,
                                std::log(c.what.measured_step / c.forecast->step.p50)});
    }
    if (rows.empty())
        throw ConfigError("calibrate: no row of these files states a step that can be predicted");
    return rows;
}

ScatterTable fit_scatter(const std::vector<ScatterRow>& rows, const std::vector<bool>& used) {
    constexpr std::size_t least_rows = 3;
    ScatterTable table;
    std::vector<double> medians;
    for (const auto& [name, of] : groups_of(rows, used)) {
        table.groups.push_back(
            {name.first, name.second, as_int(of.size()), blocks_in(of), scatter_of_group(of)});
        std::vector<double> offs;
        for (const ScatterRow* row : of) offs.push_back(row->off);
        if (offs.size() >= least_rows) medians.push_back(quantile(offs, 0.5));
    }
    if (!medians.empty())
        table.frameworks = {std::max(0.0, -quantile(medians, tail)),
                            std::max(0.0, quantile(medians, 1 - tail))};
    table.pairs = pair_scatter(pairs_of(rows, used));
    fit_classes(rows, used, table);
    table.few_shot = shipped_scatter().few_shot;  // calibrate_few_shot_widths()
    table.network = shipped_scatter().network;    // set by hand, as the next two
    table.memory = shipped_scatter().memory;
    table.untuned = shipped_scatter().untuned;
    return table;
}

Interval interval_by(const ScatterTable& table, const ScatterRow& row) {
    Doubts doubts = row.forecast.doubts;
    const Experiment& e = row.what.experiment;
    const std::optional<ClassScatter> others = class_of(table, e, row.what.circumstances);
    const Scatter scatter = others ? others->scatter : scatter_of(table, e.framework, e.cluster);
    doubts.faster = scatter.faster;
    doubts.slower = scatter.slower;
    return predictive_interval(row.forecast.step.p50, row.forecast.step.mean, doubts);
}

std::vector<BlockErrors> leave_out_scatter(const std::vector<ScatterRow>& rows, LeftOut by) {
    std::vector<std::string> names;
    for (const ScatterRow& row : rows) names.push_back(block_of(row.what, by));
    return leave_out_in_turn(names, [&](std::vector<bool> of_block) -> PredictLeftOut {
        of_block.flip();
        return [&rows, table = fit_scatter(rows, of_block)](std::size_t i) {
            const Interval step = interval_by(table, rows[i]);
            const Seconds measured = rows[i].what.measured_step;
            return std::pair(std::log(step.p50 / measured),
                             step.p10 <= measured && measured <= step.p90);
        };
    });
}

std::string calibrate_scatter(const std::vector<std::string>& measurements, const std::string& out,
                              const std::string& date, const Progress& progress) {
    const std::vector<ScatterRow> rows = scatter_rows(measurements, progress);
    const std::vector<ScatterRow> all =
        with_unseen(rows, rows_of_unseen(measurements, rows, progress));
    ScatterTable table = fit_scatter(all, std::vector<bool>(all.size(), true));
    table.date = date;
    for (const std::string& path : measurements)
        if (!holds_kernels(path))
            table.sources.push_back(std::filesystem::path(path).filename().string());
    write_whole({{out, write_scatter(table)}});
    return fmt::format("scatter of {} steps in {} pairs of framework and device written to {}\n",
                       rows.size(), table.groups.size(), out) +
           block_table(leave_out_scatter(rows, LeftOut::model), LeftOut::model);
}

std::string calibrate_few_shot_widths(const std::vector<std::string>& measurements,
                                      const std::string& out, const Progress& progress) {
    const std::vector<ScatterRow> rows = scatter_rows(measurements, progress);
    ScatterTable table = shipped_scatter();
    table.few_shot = few_shot_scatter(measurements, rows, progress);
    write_whole({{out, write_scatter(table)}});
    return fmt::format(
        "widths of fits to one model's steps: {:.4f} faster, {:.4f} slower; the "
        "others are the shipped ones; written to {}\n",
        table.few_shot.faster, table.few_shot.slower, out);
}

std::string cross_validate_scatter(const std::vector<std::string>& measurements, LeftOut by,
                                   const Progress& progress) {
    const std::vector<ScatterRow> rows = scatter_rows(measurements, progress);
    if (by == LeftOut::source)
        return left_out_tables(left_out_rows(rows, rows_of_unseen(measurements, rows, progress)));
    const std::vector<BlockErrors> blocks = leave_out_scatter(rows, by);
    if (blocks.size() < 2)
        refuse("--cross-validate {}: the rows have one {} only; expected two or more",
               to_string(by), to_string(by));
    return block_table(blocks, by);
}

Scatter few_shot_scatter(const std::vector<std::string>& measurements,
                         const std::vector<ScatterRow>& rows, const Progress& progress) {
    // over all devices, as a framework is off by the same on each
    std::map<std::string, std::vector<double>> by_framework;
    for (auto& [group, cases] : from_default(measurements, rows)) {
        if (progress)
            progress(fmt::format("fitting {} steps of {} on {}", cases.size(), group.first,
                                 group.second));
        std::vector<double>& offs = by_framework[group.first];
        for (const double off : errors_on_others(cases)) offs.push_back(off);
    }
    std::vector<Off> all;
    for (const auto& [framework, offs] : by_framework)
        for (const double off : offs) all.push_back({off, 1 / real(offs.size())});
    return {weighted_end(all, -1), weighted_end(all, 1)};
}

}  // namespace stepcast
