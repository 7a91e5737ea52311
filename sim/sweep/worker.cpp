#include "sim/sweep/worker.h"

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/input/check_experiment.h"
#include "model/machine/allocator_settings.h"
#include "sim/campaign.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/memory/process_memory.h"
#include "sim/sweep/reasons.h"

namespace stepcast {
namespace {

constexpr double rounding = 1e-9;  // sums in another order differ by so much

void count_infeasible(Screened& out, std::string_view reason) {
    const auto found = out.infeasible.find(reason);
    found == out.infeasible.end() ? void(out.infeasible.emplace(reason, 1)) : void(++found->second);
}

}  // namespace

bool work_differs(const SweepQuestion& q) {
    const auto values = [&](std::string_view key) {
        const auto axis = std::ranges::find(q.axes, key, &Axis::key);
        return axis == q.axes.end() ? std::span<const std::string>()
                                    : std::span<const std::string>(axis->values);
    };
    for (const char* key : {"workload.preset", "workload.seq", "parallelism.global_batch"})
        if (values(key).size() > 1) return true;
    const auto batches = values("parallelism.global_batch"), replicas = values("parallelism.dp");
    const bool unset =
        batches.empty() ? q.experiment.parallelism.global_batch == 0 : batches.front() == "0";
    const bool replicas_differ = replicas.size() > 1 || contains(replicas, "rest") ||
                                 (varies_every_split(q.axes) && replicas.empty());
    return unset && (replicas_differ || values("parallelism.micro_batch").size() > 1);
}

SweepQuestion answerable(SweepQuestion question) {
    if (!work_differs(question)) return question;
    if (question.objective == Objective::step) question.objective = Objective::tokens;
    if (question.second == Objective::step) question.second = Objective::tokens;
    if (question.second == question.objective) question.second.reset();
    return question;
}

double score(Objective objective, const Candidate& c, Seconds step) {
    switch (objective) {
        case Objective::step: return step.si();
        case Objective::tokens: return step.si() / c.tokens;
        case Objective::cost: return step.si() * c.price / c.tokens;
        case Objective::memory: return c.peak.si();
    }
    throw std::logic_error("score: no such objective");
}

Score scores(const SweepQuestion& question, const Candidate& c, Seconds step) {
    return {score(question.objective, c, step),
            question.second ? score(*question.second, c, step) : 0, c.tight};
}

Score lower_scores(const SweepQuestion& question, const Candidate& c) {
    return scores(question, c, c.lower * (1 - rounding));
}

void merge(MapCells& cells, const MapCells& more) {
    for (const auto& [at, step] : more) {
        const auto [cell, is_new] = cells.try_emplace(at, step);
        if (!is_new) cell->second = std::min(cell->second, step);
    }
}

void merge(Screened& all, Screened&& more) {
    all.legal += more.legal;
    all.bounded_away += more.bounded_away;
    all.tight += more.tight;
    for (const auto& [reason, points] : more.illegal) count_reason(all.illegal, reason, points);
    for (const auto& [reason, points] : more.infeasible) all.infeasible[reason] += points;
    all.candidates.insert(all.candidates.end(), more.candidates.begin(), more.candidates.end());
    merge(all.cells, more.cells);
}

Grouping grouping(const SweepQuestion& q) {
    constexpr double most_groups = 256;  // each is proven by itself
    static constexpr std::string_view series[] = {"machines", "cluster.preset", "workload.preset",
                                                  "framework.preset", "parallelism.moe_system"};
    double settings = 1;
    bool machines = q.within.has_value(), ranks = false;
    for (const Axis& axis : q.axes) {
        if (axis.key != "parallelism" && split_index(axis.key) == split_key_count)
            settings *= real(axis.values.size());
        machines = machines || (axis.values.size() > 1 && contains(series, axis.key));
        ranks = ranks || axis.key == "cluster.nodes" || axis.key == "cluster.gpus_per_node" ||
                axis.key == "machines";
    }
    if (machines && settings > 1 && settings <= most_groups && !q.second) return Grouping::settings;
    return ranks ? Grouping::ranks : Grouping::none;
}

std::uint64_t group_of(Grouping grouping, const Candidate& c) {
    return grouping == Grouping::settings ? c.id.base
           : grouping == Grouping::ranks  ? static_cast<std::uint64_t>(c.ranks)
                                          : 0;
}

Incumbent incumbent(const Candidate& c, const Score& score, Grouping grouping) {
    return {score, c.id, group_of(grouping, c), c.kind};
}

Wanted wanted(const SweepQuestion& q) {
    return {as_index(q.top), q.second.has_value(), grouping(q) != Grouping::none,
            varies_every_split(q.axes) && !q.second};
}

std::vector<VariedKey> map_keys(const SweepSpace& space) {
    const std::vector<VariedKey>& keys = space.varied();
    return keys.size() < 2 ? std::vector<VariedKey>() : std::vector(keys.begin(), keys.begin() + 2);
}

std::shared_ptr<FoundPipelines> SweepCommons::pipelines(const SweepSpace& space,
                                                        std::uint64_t base) {
    const std::uint64_t first = space.before_switches(base);
    const std::lock_guard lock(mutex_);
    std::erase_if(pipelines_, [](const auto& of_base) { return of_base.second.expired(); });
    std::shared_ptr<FoundPipelines> found = pipelines_[first].lock();
    if (!found)
        pipelines_[first] = found = std::make_shared<FoundPipelines>(space.base(first).experiment);
    return found;
}

bool coarse_excludes(const SweepQuestion& q) {
    return q.where.empty() && q.objective != Objective::cost && q.second != Objective::cost;
}

SweepWorker::SweepWorker(const SweepSpace& space, const SweepQuestion& question,
                         std::shared_ptr<SweepCommons> commons)
    : space_(space),
      question_(question),
      commons_(std::move(commons)),
      map_(commons_->map() ? &commons_->map()->add() : nullptr),
      wanted_(wanted(question)),
      grouping_(grouping(question)),
      map_keys_(map_keys(space)) {}

double price_per_gpu_hour(const SweepQuestion& question, const Cluster& cluster) {
    return question.training ? offer_for(question.training->market, cluster).price_per_gpu_hour
                             : cluster.price_per_gpu_hour;
}

SweepJobResult SweepWorker::run(const SweepJob& job) {
    SweepJobResult result;
    Incumbents incumbents(wanted_);
    for (const Incumbent& i : job.incumbents) incumbents.add(i);
    result.screened.cells = job.cells;
    last_best_ = nullptr;
    if (job.scouted > 0)
        result.screened = scout(job);
    else
        for (const std::uint64_t item : job.items) screen(item, incumbents, result.screened);
    for (const Candidate& point : job.points)
        result.simulated.push_back(simulate(point, incumbents));
    return result;
}

SweepWorker::Base& SweepWorker::at_base(std::uint64_t number) {
    if (base_ && base_->number == number) return *base_;
    base_ = std::make_unique<Base>(
        Base{number, space_.base(number), commons_->pipelines(space_, number), {}});
    last_best_ = nullptr;
    return *base_;
}

void SweepWorker::screen(std::uint64_t item, const Incumbents& incumbents, Screened& out) {
    Base& base = at_base(space_.base_of_item(item));
    const SweepVisitor visitor{
        .legal =
            [&](std::uint64_t inner, const ParallelPlan& split) {
                screen_point(base, inner, split, incumbents, out);
            },
        .illegal = [&](std::string_view reason,
                       std::uint64_t points) { count_reason(out.illegal, reason, points); }};
    const std::uint64_t legal_before = out.legal;
    space_.visit(base.base, item, visitor);
    if (map_ && !commons_->map()->stopped()) map_->legal += out.legal - legal_before;
}

Screened SweepWorker::scout(const SweepJob& job) {
    Incumbents best({.top = job.scouted, .distinct = wanted_.distinct});
    std::map<std::pair<int, int>, Incumbent> of_cells;
    Screened uncounted;
    for (const std::uint64_t item : job.items) {
        Base& base = at_base(space_.base_of_item(item));
        const auto meet = [&](std::uint64_t inner, const ParallelPlan& split) {
            const auto coarse = judge(base, inner, split, uncounted);
            if (!coarse || coarse->lower == Seconds(0)) return;
            const Incumbent met = incumbent(*coarse, lower_scores(question_, *coarse), grouping_);
            best.add(met);
            if (map_keys_.empty() || coarse->tight) return;
            const auto [cell, is_new] = of_cells.try_emplace(cell_of(base.number, split), met);
            if (!is_new && met.score < cell->second.score) cell->second = met;
        };
        space_.visit(base.base, item, {.legal = meet, .illegal = [](std::string_view, auto) {}});
    }
    std::set<PointId> chosen;
    for (const Incumbent& i : best.best()) chosen.insert(i.id);
    for (const auto& [cell, i] : of_cells) chosen.insert(i.id);
    Screened found;
    last_best_ = nullptr;
    for (const PointId id : chosen) {
        Base& base = at_base(id.base);
        const ParallelPlan split = plan_of(space_.experiment_of(id));
        if (!judge(base, id.inner, split, uncounted)) continue;
        const Candidate point = candidate(base, id.inner, split, base.evaluator->refined());
        if (is_shown(point))
            note_cell(base.number, split, shown_in_cell(point.estimate, point), found.cells);
        found.candidates.push_back(point);
    }
    return found;
}

// With the coarse bound. Returns nothing for a point that does not count, and counts the reason.
std::optional<Candidate> SweepWorker::judge(Base& base, std::uint64_t inner,
                                            const ParallelPlan& split, Screened& out) const {
    if (!base.evaluator) {
        Experiment tried = base.base.experiment;
        set_plan(tried, split);
        tried.cluster.price_per_gpu_hour = price_per_gpu_hour(question_, tried.cluster);
        try {
            check_experiment(tried);  // also checks what the rules about splits do not cover
        } catch (const ConfigError& error) {
            count_reason(out.illegal, error.what(), 1);
            return std::nullopt;
        }
        base.evaluator.emplace(tried, base.pipelines);
    }
    ++out.legal;
    const StepBound bound = base.evaluator->coarse(split);
    if (bound.fits) return candidate(base, inner, split, bound);
    count_infeasible(out, "does not fit into the device's memory");
    return std::nullopt;
}

Candidate SweepWorker::candidate(const Base& base, std::uint64_t inner, const ParallelPlan& split,
                                 const StepBound& bound) const {
    const PointFacts facts = base.evaluator->facts(split, bound.peak);
    return {.id = {base.number, inner},
            .lower = bound.lower,
            .estimate = bound.estimate,
            .peak = bound.peak,
            .tokens = facts.tokens,
            .price = facts.price,
            .ranks = base.evaluator->ranks(),
            .tight = bound.tight,
            .kind = wanted_.distinct ? space_.kind_of(base.number, split) : 0};
}

// The reason for which a point does not count, or "".
std::string SweepWorker::broken_limit(const Base& base, const ParallelPlan& split,
                                      const Candidate& c) const {
    const PointFacts facts = base.evaluator->facts(split, c.peak);
    const bool costs =
        question_.objective == Objective::cost || question_.second == Objective::cost;
    if (costs && facts.price == 0) return "cluster.price_per_gpu_hour is not stated";
    for (const Constraint& limit : question_.where)
        if (!can_hold(limit, facts, c.lower)) return "not " + limit.text;
    return {};
}

// Whether the coarse bound of a point says all that is asked: that it is excluded, and that the
// cell of the map has a better one.
bool SweepWorker::is_settled(const Base& base, const ParallelPlan& split, const Candidate& coarse,
                             const Incumbents& incumbents, MapCells& cells) {
    if (map_ || !coarse_excludes(question_) || coarse.lower == Seconds(0)) return false;
    return incumbents.excludes(incumbent(coarse, lower_scores(question_, coarse), grouping_)) &&
           (coarse.tight ||
            !betters_cell(base.number, split, shown_in_cell(coarse.lower, coarse), cells));
}

void SweepWorker::screen_point(Base& base, std::uint64_t inner, const ParallelPlan& split,
                               const Incumbents& incumbents, Screened& out) {
    auto coarse = judge(base, inner, split, out);
    if (!coarse) return;
    bool settled = is_settled(base, split, *coarse, incumbents, out.cells);
    if (!settled && coarse->lower > Seconds(0)) {
        coarse->lower = base.evaluator->with_data().lower;
        settled = is_settled(base, split, *coarse, incumbents, out.cells);
    }
    if (settled) {
        out.tight += coarse->tight;
        ++out.bounded_away;
        return;
    }
    const Candidate point = candidate(base, inner, split, base.evaluator->refined());
    if (const std::string reason = broken_limit(base, split, point); !reason.empty())
        return count_infeasible(out, reason);
    out.tight += point.tight;
    if (map_ && !point.tight && !commons_->map()->stopped()) map_->note(point, split);
    if (is_shown(point))
        note_cell(base.number, split, shown_in_cell(point.estimate, point), out.cells);
    if (incumbents.excludes(incumbent(point, lower_scores(question_, point), grouping_)))
        ++out.bounded_away;
    else
        out.candidates.push_back(point);
}

// What is within the margin comes last in the table, and is in no map.
bool SweepWorker::is_shown(const Candidate& c) { return !c.tight && c.estimate > Seconds(0); }

Seconds SweepWorker::shown_in_cell(Seconds step, const Candidate& c) const {
    return question_.objective == Objective::tokens ? step / c.tokens : step;
}

std::pair<int, int> SweepWorker::cell_of(std::uint64_t base, const ParallelPlan& split) const {
    return {space_.position(map_keys_[0], base, split), space_.position(map_keys_[1], base, split)};
}

// The best of the point's cell so far; neighbours in the walk mostly share it.
Seconds& SweepWorker::best_of_cell(std::uint64_t base, const ParallelPlan& split, MapCells& cells) {
    const std::pair at = cell_of(base, split);
    if (!last_best_ || at != last_cell_) {
        constexpr Seconds none(std::numeric_limits<double>::infinity());
        last_cell_ = at;
        last_best_ = &cells.try_emplace(at, none).first->second;
    }
    return *last_best_;
}

bool SweepWorker::betters_cell(std::uint64_t base, const ParallelPlan& split, Seconds shown,
                               MapCells& cells) {
    return !map_keys_.empty() && shown < best_of_cell(base, split, cells);
}

void SweepWorker::note_cell(std::uint64_t base, const ParallelPlan& split, Seconds shown,
                            MapCells& cells) {
    if (map_keys_.empty()) return;
    Seconds& best = best_of_cell(base, split, cells);
    best = std::min(best, shown);
}

// How much larger than asked for tensors become at most, where sizes are rounded up to parts of a
// power of two.
static double most_rounded(const AllocatorSettings& settings) {
    double most = 1;
    for (const int divisions : settings.roundup_divisions)
        if (divisions > 0) most = std::max(most, 1 + 1.0 / divisions);
    return most;
}

SimulatedPoint SweepWorker::simulate(const Candidate& c, const Incumbents& incumbents) const {
    SimulatedPoint point{.id = c.id, .step = {}, .refused = {}};
    Experiment e = space_.experiment_of(c.id);
    e.cluster.price_per_gpu_hour = price_per_gpu_hour(question_, e.cluster);
    try {
        point.step = simulated_step(e);
    } catch (const ConfigError& error) {
        point.refused = error.what();
        return point;
    }
    // The closed form decides but near the device's limit, and of what is too slow anyway.
    const double near = 0.85 / most_rounded(parse_allocator_settings(e.run.allocator));
    const bool fast =
        !incumbents.excludes(incumbent(c, scores(question_, c, point.step), grouping_));
    const bool at_limit = e.cluster.gpu.memory > Bytes(0) &&
                          c.peak > near * (e.cluster.gpu.memory - process_memory(e));
    point.unreplayed = at_limit && !fast;
    Bytes peak = c.peak;
    if (at_limit && fast) {
        point.memory = memory_forecast(e);
        peak = point.memory->peak;
        point.tight = point.memory->tight;
        if (!point.memory->fits)
            point.refused = "does not fit into the device's memory, as its allocator is replayed";
    }
    const PointFacts facts = PointEvaluator(e).facts(plan_of(e), peak);
    for (const Constraint& constraint : question_.where)
        if (!holds(constraint, facts, point.step)) point.refused = "not " + constraint.text;
    return point;
}

}  // namespace stepcast
