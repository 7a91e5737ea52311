#include "sim/sweep/sweep.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <set>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/launcher.h"
#include "model/base/lists.h"
#include "model/input/check_experiment.h"
#include "model/input/split_rules.h"
#include "sim/campaign.h"
#include "sim/interval.h"
#include "sim/on_threads.h"
#include "sim/predict.h"
#include "sim/sweep/map_points.h"
#include "sim/sweep/pool.h"
#include "sim/sweep/search.h"

namespace stepcast {
namespace {

constexpr std::uint64_t announced_points = 100'000'000;

std::string thousands(std::uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
    return text;
}

SweepRow row_of(const SweepSpace& space, const std::optional<Training>& training,
                const Candidate& c, Seconds step, const std::optional<MemoryUse>& memory) {
    SweepRow row{.settings = space.settings_of(c.id),
                 .step = step,
                 .lower = c.lower,
                 .estimate = c.estimate,
                 .peak = c.peak,
                 .tight = c.tight};
    row.tokens_per_second = c.tokens / step.si();
    row.cost_per_token = c.price * step.si() / c.tokens;
    row.ranks = c.ranks;
    const Experiment experiment = space.experiment_of(c.id);
    row.forecast = predict(AsRun{.experiment = experiment, .memory = memory});
    row.peak = row.forecast.memory.peak;
    row.tight = row.tight || row.forecast.memory.tight;
    if (training) row.campaign = campaign_of(*training, experiment, row.forecast);
    return row;
}

// Neighbours that differ in vp alone and lie within 1 % by the closed form, as far as no legal one
// between is slower.
void find_alike_chunks(const SweepSpace& space, PointId id, SweepRow& row) {
    constexpr double alike = 1.01;
    if (row.estimate <= Seconds(0)) return;
    const Experiment e = space.experiment_of(id);
    row.least_vp = row.most_vp = e.parallelism.vp;
    if (e.parallelism.pp == 1) return;
    PointEvaluator evaluator(e);
    const int most = e.workload.layers / e.parallelism.pp;
    const auto reach = [&](int way, int& last) {
        for (int vp = last + way; vp >= 1 && vp <= most; vp += way) {
            Experiment other = e;
            other.parallelism.vp = vp;
            try {
                check_experiment(other);
            } catch (const ConfigError&) {  // no such interleaving
                continue;
            }
            const StepBound bound = evaluator.bound(plan_of(other));
            if (!beyond_framework(other).empty() || !bound.fits || bound.tight != row.tight ||
                bound.estimate > alike * row.estimate)
                return;
            last = vp;
        }
    };
    reach(-1, row.least_vp);
    reach(+1, row.most_vp);
}

// Compares each row with the first, over the draws that both share, widened by the past errors of
// forecasts of pairs.
void compare_with_first(std::vector<SweepRow>& rows, const std::vector<Incumbent>& of,
                        const SweepSpace& space, const SweepSearch& search, Objective objective) {
    if (rows.empty() || objective == Objective::memory) return;
    const auto scores_of = [&](std::size_t i) {
        const PointId id = of[i].id;
        const Candidate& candidate = search.simulated().at(id).first;
        std::vector<Seconds> steps{rows[i].step};
        if (rows[i].forecast.draws > 1) steps = steps_of_draws(space.experiment_of(id));
        std::vector<double> found;
        for (const Seconds step : steps) found.push_back(score(objective, candidate, step));
        return found;
    };
    const std::vector<double> first = scores_of(0);
    for (std::size_t i = 1; i < rows.size(); ++i)
        rows[i].behind =
            widened(behind(scores_of(i), first),
                    reach_of_pair(rows[0].forecast, rows[i].forecast, shipped_scatter().pairs));
}

// Marks, for each setting except the number of ranks, the row with the least ranks whose whole
// training ends in time.
void mark_within(SweepAnswer& answer, Seconds limit) {
    answer.within = limit;
    std::map<Settings, SweepRow*> least;
    for (SweepRow& row : answer.of_each) {
        if (!row.campaign || row.campaign->time[1] > limit) continue;
        Settings but_count;
        for (const auto& [key, value] : row.settings)
            if (key != "cluster.nodes" && key != "cluster.gpus_per_node" &&
                contains(answer.each_of, key))
                but_count.emplace_back(
                    key, key == "machines" ? value.substr(value.find('x') + 1) : value);
        SweepRow*& best = least[but_count];
        if (!best || row.ranks < best->ranks) best = &row;
    }
    for (auto& [settings, row] : least) row->least_within = true;
}

// Whether the gates are drawn, so that the arbitrary seed matters.
bool has_drawn_routing(const Experiment& e) {
    return e.workload.moe.experts > 0 && (e.routing.kind == RoutingSpec::Kind::random_gate ||
                                          e.routing.kind == RoutingSpec::Kind::zipf);
}

std::vector<SweepRow> rows_of(const SweepSpace& space, const std::optional<Training>& training,
                              const SweepSearch& search, const std::vector<Incumbent>& wanted,
                              int threads) {
    std::vector<SweepRow> rows(wanted.size());
    each_on_threads(threads, wanted.size(), [&](std::size_t i) {
        const auto& [candidate, step] = search.simulated().at(wanted[i].id);
        rows[i] = row_of(space, training, candidate, step, search.memory_of(wanted[i].id));
    });
    return rows;
}

// From estimates if a closed form covers the workload, else from simulated points.
std::optional<HeatMap> heat_map(const SweepSpace& space, const SweepSearch& search, bool tokens) {
    const auto keys = map_keys(space);
    if (keys.empty()) return std::nullopt;
    HeatMap map{.row_key = keys[0].name,
                .column_key = keys[1].name,
                .rows = {},
                .columns = {},
                .step = {},
                .of_token = tokens};
    MapCells cells = search.screened().cells;
    if (cells.empty()) {
        map.simulated = true;
        for (const auto& [id, found] : search.simulated()) {
            const ParallelPlan split = plan_of(space.experiment_of(id));
            const std::pair at{space.position(keys[0], id.base, split),
                               space.position(keys[1], id.base, split)};
            merge(cells, {{at, tokens ? found.second / found.first.tokens : found.second}});
        }
    }
    std::set<int> rows, columns;
    for (const auto& [at, step] : cells) rows.insert(at.first), columns.insert(at.second);
    for (const int row : rows) map.rows.push_back(space.value_at(keys[0], row));
    for (const int column : columns) map.columns.push_back(space.value_at(keys[1], column));
    for (const int row : rows)
        for (const int column : columns) {
            const auto cell = cells.find({row, column});
            map.step.push_back(cell == cells.end() ? Seconds() : cell->second);
        }
    return map;
}

// The three most frequent reasons, for an error message.
std::string most_frequent(const Reasons& counts) {
    std::vector<std::pair<std::uint64_t, std::string>> sorted;
    for (const auto& [reason, points] : counts) sorted.emplace_back(points, reason);
    std::ranges::sort(sorted, std::greater<>());
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, sorted.size()); ++i)
        text += fmt::format("{}{} ({})", i == 0 ? "" : "; ", sorted[i].second, sorted[i].first);
    return text;
}

// "pp = 3 does not divide 8 GPUs; ", of the first degree of which no value does; "" if each has
// one.
std::string no_divisor(const SweepBase& base) {
    const int ranks = rank_count(base.experiment.cluster);
    const auto divides = [&](int value) { return value > 0 && ranks % value == 0; };
    for (const SplitKey key : {SplitKey::tp, SplitKey::cp, SplitKey::pp})
        if (const auto& values = base.values.at(as_index(key));
            !values.empty() && std::ranges::none_of(values, divides))
            return fmt::format("{} = {} does not divide {} GPUs; ", to_string(key),
                               fmt::join(values, ", "), ranks);
    return "";
}

void check_found(const SweepSpace& space, const SweepSearch& search) {
    const Screened& s = search.screened();
    if (s.legal == 0)
        throw ConfigError(
            fmt::format("sweep: none of {} configurations is legal: {}{}; expected other values, "
                        "--vary parallelism.dp=rest, or --vary parallelism=all",
                        space.point_count(), no_divisor(space.base(0)), most_frequent(s.illegal)));
    if (search.simulated().empty())
        throw ConfigError(fmt::format(
            "sweep: none of {} legal configurations is feasible: {}; expected a larger space "
            "or looser --where",
            s.legal, most_frequent(s.infeasible)));
}

void check(const SweepQuestion& q) {
    if (q.top < 1) throw ConfigError(fmt::format("--top {}: expected at least 1", q.top));
    const bool cost = q.objective == Objective::cost || q.second == Objective::cost;
    const bool varies = std::ranges::any_of(q.axes, [](const Axis& axis) {
        return axis.key == "cluster.price_per_gpu_hour" || axis.key == "cluster.preset" ||
               axis.key == "machines";
    });
    Experiment priced = q.experiment;
    priced.cluster.price_per_gpu_hour = price_per_gpu_hour(q, q.experiment.cluster);
    if (cost && !varies && priced.cluster.price_per_gpu_hour == 0)
        throw ConfigError(
            "--objective cost: cluster.price_per_gpu_hour is 0; expected what a rank costs an "
            "hour, for "
            "example --set cluster.price_per_gpu_hour=2.5, or a training at the market's prices "
            "(--tokens)");
    check_constraints(q.where, q.axes, priced);
}

SweepCounts counts_of(const SweepSpace& space, const SweepSearch& search) {
    const Screened& s = search.screened();
    const std::uint64_t simulated = search.simulated().size();
    return {.points = space.point_count(),
            .legal = s.legal,
            .feasible = s.bounded_away + simulated,
            .bounded_away = s.bounded_away,
            .simulated = simulated,
            .twins = search.twins(),
            .tight = s.tight,
            .illegal = {s.illegal.begin(), s.illegal.end()},
            .infeasible = {s.infeasible.begin(), s.infeasible.end()}};
}

// The parts of the answer that repeat the question.
SweepAnswer asked_of(const SweepQuestion& asked, const SweepQuestion& question,
                     const SweepSpace& space) {
    SweepAnswer result{.experiment = question.experiment.name,
                       .cluster = question.experiment.cluster.name,
                       .framework = question.experiment.framework.name,
                       .calibrated = question.experiment.cluster.fitted.has_value(),
                       .objective = question.objective,
                       .second = question.second,
                       .work_differs = asked.objective != question.objective,
                       .asked = question.top,
                       .margin = question.experiment.cluster.overheads.margin,
                       .varied = {},
                       .schedules_left_out = space.schedules_left_out(),
                       .switches = space.switches()};
    for (const Override& other : outvoted(question.experiment))
        result.outvoting.push_back(fmt::format(
            "{} = {} ({})", other.key, get_key(question.experiment, other.key), other.value));
    for (const VariedKey& key : space.varied()) result.varied.push_back(key.name);
    for (const Constraint& c : question.where) result.where.push_back(c.text);
    return result;
}

bool all_calibrated(const SweepAnswer& answer) {
    return std::ranges::all_of(
        std::array{&answer.best, &answer.scaling, &answer.of_each}, [](const auto* rows) {
            return std::ranges::all_of(*rows,
                                       [](const SweepRow& row) { return row.forecast.calibrated; });
        });
}

// Every process runs the same checks: if one went on while another refused, it would wait for that
// one forever.
SweepQuestion checked(const SweepQuestion& asked) {
    check_axes(asked.axes, asked.experiment);
    check(asked);
    return answerable(asked);
}

}  // namespace

SweepAnswer sweep(const SweepQuestion& asked, const SweepOptions& options) {
    const SweepQuestion question = checked(asked);
    const SweepSpace space(question.experiment, question.axes, question.stated);
    if (options.announce && space.point_count() >= announced_points)
        options.announce(
            fmt::format("{} points are asked for: illegal regions are passed over whole, and lower "
                        "bounds leave "
                        "few of the others to simulate",
                        thousands(space.point_count())));
    SweepSearch search(space, question, options);
    search.screen_all();
    search.simulate_rest();
    check_found(space, search);
    SweepAnswer result = asked_of(asked, question, space);
    result.counts = counts_of(space, search);
    result.broken_bounds = search.broken_bounds();
    result.best =
        rows_of(space, question.training, search, search.incumbents().best(), options.threads);
    const std::vector<double> gaps = search.gaps();
    for (std::size_t i = 0; i < result.best.size(); ++i) result.best[i].gap = gaps[i];
    result.distinct = search.incumbents().wanted().distinct;
    if (result.distinct)
        each_on_threads(options.threads, result.best.size(), [&](std::size_t i) {
            find_alike_chunks(space, search.incumbents().best()[i].id, result.best[i]);
        });
    if (!question.second)
        compare_with_first(result.best, search.incumbents().best(), space, search,
                           question.objective);
    result.one_routing = std::ranges::any_of(search.incumbents().best(), [&](const Incumbent& i) {
        const Experiment e = space.experiment_of(i.id);
        return e.routing.draws == 1 && has_drawn_routing(e);
    });
    const auto groups = search.incumbents().best_by_group() | std::views::values;
    const std::vector<Incumbent> of_each(groups.begin(), groups.end());
    const bool settings = grouping(question) == Grouping::settings;
    (settings ? result.of_each : result.scaling) =
        rows_of(space, question.training, search, of_each, options.threads);
    if (settings) result.each_of = space.outer_keys();
    if (contains(result.each_of, "framework.preset"))
        compare_with_first(result.of_each, of_each, space, search, question.objective);
    if (!result.best.empty()) result.calibrated = all_calibrated(result);
    if (question.within) mark_within(result, *question.within);
    result.map = heat_map(space, search, question.objective == Objective::tokens);
    if (options.map) result.points = sweep_map(space, question, search, options.threads);
    return result;
}

bool is_sweep_helper() { return mpi_process() > 0; }

void help_sweep(const SweepQuestion& asked) {
    const SweepQuestion question = checked(asked);
    const SweepSpace space(question.experiment, question.axes, question.stated);
    help_mpi_team(space, question);
}

}  // namespace stepcast
