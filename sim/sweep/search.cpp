#include "sim/sweep/search.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "model/base/numbers.h"
#include "model/rank_groups.h"

namespace stepcast {
namespace {

// legal points in a round, roughly; bounds the memory
constexpr std::uint64_t round_points = 4'000'000;
constexpr std::uint64_t small_space = 100'000;  // up to so many points, one round takes all
constexpr std::size_t jobs_of_round = 64;
// First rounds that are scouted, and how many kinds of split each job brings back: judged by the
// time that they save in one search (notes/closed-forms.md), no answer depends on them.
constexpr std::uint64_t scouted_rounds = 8, scouted_by_job = 4;
constexpr std::size_t batch_size = 8;  // points simulated until the incumbents are updated
// Points simulated for the rows behind a proven first: a quarter of those before, within these.
constexpr std::size_t least_of_others = 8, most_of_others = 64;

// Whether gradients or parameters, of dense units or of experts, are exchanged with another rank.
bool exchanges_data(const Experiment& e) {
    const RankGroups groups = rank_groups(e);
    return groups.data_context.size() > 1 ||
           (e.workload.moe.experts > 0 && groups.expert_data.size() > 1);
}

}  // namespace

// The code that reads each switch: model/block/split_linear.h,
// model/transformer/{hops.h,data_parallel.cpp,step.cpp}.
ParallelPlan without_idle_switches(const Experiment& e) {
    ParallelPlan plan = plan_of(e);
    if (e.workload.kind != Workload::Kind::transformer) return plan;
    const Parallelism& p = plan.parallelism;
    Exchanges& x = plan.exchanges;
    const Exchanges usual;
    if (p.tp == 1) {
        x.tensor = usual.tensor;
        x.weight_gradient = usual.weight_gradient;
    }
    if (p.pp == 1) x.sends = usual.sends;
    if (p.pp == 1 || !repeats_sequence(p)) x.scatter_sends = usual.scatter_sends;
    const bool exchanges = exchanges_data(e);
    if (!exchanges) x.gradients = usual.gradients;
    if (!exchanges || p.zero == 0 || p.zero == 3) x.parameters = usual.parameters;
    return plan;
}

class SweepProgress {
public:
    SweepProgress(std::function<void(std::string_view)> show, std::uint64_t points)
        : show_(std::move(show)), points_(points), start_(std::chrono::steady_clock::now()) {}

    void screened(const Screened& s) {
        walked_ += s.legal;
        for (const auto& [reason, n] : s.illegal) walked_ += n;
        legal_ += s.legal;
        tell("screening");
    }
    void simulated(Seconds best) {
        ++simulated_;
        best_ = best;
        tell("simulating");
    }
    void waiting(std::size_t open) { open_ = open; }

private:
    void tell(const char* what) {
        if (!show_) return;
        const double elapsed =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        std::string text =
            fmt::format("{}: {:.3g} of {:.3g} points ({:.3g} legal, {:.3g}/s)", what, real(walked_),
                        real(points_), real(legal_), real(legal_) / elapsed);
        if (simulated_ > 0)
            text += fmt::format(", {} simulated, best {}", simulated_, to_string(best_));
        if (walked_ < points_)
            text += fmt::format(", {:.0f} s left", elapsed * (real(points_) / real(walked_) - 1));
        else
            text += fmt::format(", at most {} to simulate", open_);
        show_(text);
    }

    std::function<void(std::string_view)> show_;
    std::uint64_t points_, walked_ = 0, legal_ = 0, simulated_ = 0;
    std::size_t open_ = 0;
    Seconds best_;
    std::chrono::steady_clock::time_point start_;
};

SweepSearch::SweepSearch(const SweepSpace& space, const SweepQuestion& question,
                         const SweepOptions& options)
    : space_(space),
      question_(question),
      grouping_(grouping(question)),
      incumbents_(wanted(question)),
      progress_(std::make_unique<SweepProgress>(options.progress, space.point_count())) {
    if (options.map) map_.emplace(space, question.objective == Objective::tokens);
    run_ = open_pool(space, question, options.threads, map_ ? &*map_ : nullptr);
    if (!options.out.empty()) file_ = std::make_unique<SweepFile>(options.out, space.varied());
}
SweepSearch::~SweepSearch() = default;

void SweepSearch::screen_all() {
    const std::uint64_t items = space_.item_count();
    std::uint64_t first = 0, size = space_.point_count() <= small_space ? items : items / 64 + 1;
    if (size < items && !map_ && coarse_excludes(question_))
        scout(0, std::min(items, scouted_rounds * size));
    while (first < items) {
        const std::uint64_t last = std::min(items, first + size);
        take(screen_round(first, last));
        simulate_promising(open_);
        drop_excluded();
        first = last;
        const double legal_of_item = std::max(1.0, real(all_.legal) / real(last));
        if (map_ && legal_of_item * real(items) > 1.2 * real(most_mapped)) map_->stop();
        size = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(round_points / legal_of_item),
                                         1, items / 4 + 1);
    }
    // what was simulated before it was screened is not bounded away
    all_.bounded_away -= scouted_.size();
}

// By rising lower bound, so that the first simulations exclude most.
void SweepSearch::simulate_rest() {
    std::ranges::sort(
        open_, {}, [&](const Candidate& c) { return std::pair(lower_scores(question_, c), c.id); });
    for (std::size_t next = 0; next < open_.size();) {
        std::vector<Candidate> chosen;
        for (; next < open_.size() && chosen.size() < batch_size; ++next)
            if (const Candidate& c = open_[next]; !is_simulated(c) && !is_needless(c))
                chosen.push_back(c);
        progress_->waiting(open_.size() - next);
        simulate(chosen);
    }
    drop_excluded();
    if (incumbents_.wanted().distinct) simulate_other_rows();
    drop_excluded();
    all_.bounded_away += open_.size();
}

// Those by estimate, then the proof as far as few simulations reach.
void SweepSearch::simulate_other_rows() {
    std::size_t left = std::clamp(simulated_.size() / 4, least_of_others, most_of_others);
    while (left > 0 && !open_.empty()) {
        std::vector<Candidate> chosen = promising(open_);
        for (const Candidate& c : open_) {
            if (!chosen.empty()) break;
            if (!is_simulated(c) && !excluded(c)) chosen.push_back(c);
        }
        if (chosen.empty()) return;
        if (chosen.size() > left) chosen.resize(left);
        left -= chosen.size();
        simulate(chosen);
    }
}

std::vector<double> SweepSearch::gaps() const {
    if (!incumbents_.wanted().distinct) return std::vector<double>(incumbents_.best().size());
    std::map<std::uint64_t, Score> least;  // that a kind may have
    const auto take = [&](const Candidate& c, const Score& score) {
        const auto [of_kind, is_new] = least.try_emplace(c.kind, score);
        if (!is_new) of_kind->second = std::min(of_kind->second, score);
    };
    for (const Candidate& c : open_) take(c, lower_scores(question_, c));
    for (const auto& [id, found] : simulated_)
        take(found.first, scores(question_, found.first, found.second));
    std::vector<Score> ranks;
    for (const auto& [kind, score] : least) ranks.push_back(score);
    std::ranges::sort(ranks);
    constexpr double rounding = 1e-8;
    std::vector<double> gaps;
    for (const Incumbent& row : incumbents_.best()) {
        const Score& least_here = ranks[gaps.size()];
        const double gap =
            row.score.tight && !least_here.tight ? 1 : 1 - least_here.first / row.score.first;
        gaps.push_back(gap > rounding ? gap : 0);
    }
    return gaps;
}

bool SweepSearch::excluded(const Candidate& c) const {
    return incumbents_.excludes(incumbent(c, lower_scores(question_, c), grouping_));
}
bool SweepSearch::is_needless(const Candidate& c) const {
    return incumbents_.needs_no(incumbent(c, lower_scores(question_, c), grouping_));
}
bool SweepSearch::is_simulated(const Candidate& c) const {
    return simulated_.contains(c.id) || refused_.contains(c.id);
}
bool SweepSearch::promises(const Candidate& c) const {
    return !is_simulated(c) && !incumbents_.excludes(estimated(c));
}

std::vector<SweepJob> SweepSearch::jobs_of(std::uint64_t first, std::uint64_t last) const {
    std::vector<SweepJob> jobs(std::min<std::uint64_t>(jobs_of_round, last - first));
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        jobs[j].incumbents = incumbents_.all();
        jobs[j].cells = all_.cells;
        const auto begin = first + (last - first) * j / jobs.size(),
                   end = first + (last - first) * (j + 1) / jobs.size();
        for (std::uint64_t position = begin; position < end; ++position)
            jobs[j].items.push_back(space_.screened_item(position));
        std::ranges::sort(jobs[j].items);  // neighbours share what was priced
    }
    return jobs;
}

// Before the first round nothing is known that would exclude a point. The coarse bound finds points
// that do, without the paths of all other pipelines.
void SweepSearch::scout(std::uint64_t first, std::uint64_t last) {
    std::vector<SweepJob> jobs = jobs_of(first, last);
    for (SweepJob& job : jobs) job.scouted = scouted_by_job;
    std::vector<Candidate> found;
    for (const auto& [screened, none] : run_(jobs, {})) {
        found.insert(found.end(), screened.candidates.begin(), screened.candidates.end());
        merge(all_.cells, screened.cells);
    }
    simulate_promising(found);
    for (const auto& [id, point] : simulated_) scouted_.insert(id);
    scouted_.insert(refused_.begin(), refused_.end());
}

Screened SweepSearch::screen_round(std::uint64_t first, std::uint64_t last) {
    Screened round;
    for (SweepJobResult& result : run_(jobs_of(first, last), [&](const SweepJobResult& r) {
             progress_->screened(r.screened);
         }))
        merge(round, std::move(result.screened));
    return round;
}

void SweepSearch::take(Screened&& round) {
    for (const Candidate& c : round.candidates) scouted_.erase(c.id);
    open_.insert(open_.end(), round.candidates.begin(), round.candidates.end());
    round.candidates.clear();
    merge(all_, std::move(round));
    drop_excluded();
}

void SweepSearch::drop_excluded() {
    const auto gone = std::ranges::remove_if(open_, [&](const Candidate& c) {
        if (is_simulated(c)) return true;
        if (!excluded(c)) return false;
        ++all_.bounded_away;
        return true;
    });
    open_.erase(gone.begin(), gone.end());
}

// The best points by estimate that could still be among the wanted ones.
std::vector<Candidate> SweepSearch::promising(const std::vector<Candidate>& among) const {
    Incumbents best(incumbents_.wanted());
    std::map<PointId, Candidate> met;
    for (const Candidate& c : among)
        if (promises(c) && !best.excludes(estimated(c))) {
            best.add(estimated(c));
            met.emplace(c.id, c);
        }
    std::vector<Candidate> chosen;
    for (const Incumbent& i : best.all())  // some are also the best of their group
        if (const auto once = met.extract(i.id)) chosen.push_back(once.mapped());
    return chosen;
}

// Runs before the rest, because its results let the bounds exclude much.
void SweepSearch::simulate_promising(const std::vector<Candidate>& among) {
    std::vector<Candidate> now;
    for (const Candidate& c : promising(among)) {
        if (!promises(c)) continue;
        now.push_back(c);
        if (now.size() == batch_size) simulate(std::exchange(now, {}));
    }
    simulate(now);
}

SweepSearch::StepKey SweepSearch::step_key(PointId id) const {
    const ParallelPlan split = without_idle_switches(space_.experiment_of(id));
    StepKey key{id.base, {}};
    for (std::size_t k = 0; k < split_key_count; ++k) key.second[k] = split_fields[k].get(split);
    return key;
}

// Whether what is known of a point with the same step tells all of this one: the memory of one that
// was too slow was not replayed.
bool SweepSearch::settles(const SimulatedPoint& twin, const Candidate& c) const {
    return !twin.refused.empty() || !twin.unreplayed ||
           incumbents_.excludes(incumbent(c, scores(question_, c, twin.step), grouping_));
}

void SweepSearch::simulate(const std::vector<Candidate>& points) {
    std::vector<SweepJob> jobs;
    std::vector<StepKey> keys;
    std::set<StepKey> fresh;  // met for the first time
    for (const Candidate& c : points) {
        const StepKey& key = keys.emplace_back(step_key(c.id));
        if (const auto twin = steps_.find(key); twin != steps_.end() && settles(twin->second, c))
            continue;
        if (fresh.insert(key).second)
            jobs.push_back({.points = {c}, .incumbents = incumbents_.all()});
    }
    const auto on_done = [&](const SweepJobResult& r) {
        progress_->simulated(incumbents_.best().empty()
                                 ? r.simulated.front().step
                                 : simulated_.at(incumbents_.best().front().id).second);
        if (file_) file_->add(r.simulated.front(), space_.settings_of(r.simulated.front().id));
    };
    for (const SweepJobResult& result : run_(jobs, on_done))
        steps_.insert_or_assign(step_key(result.simulated.front().id), result.simulated.front());
    for (std::size_t i = 0; i < points.size(); ++i)
        note(points[i], steps_.at(keys[i]), fresh.erase(keys[i]) == 0);
}

void SweepSearch::note(const Candidate& c, const SimulatedPoint& point, bool is_twin) {
    if (!point.refused.empty()) {
        refused_.insert(c.id);
        ++all_.infeasible[point.refused];
        return;
    }
    constexpr double rounding = 1e-9;
    if (point.step < c.lower * (1 - rounding)) ++broken_bounds_;
    twins_ += is_twin;
    Candidate known = c;
    known.tight = c.tight || point.tight;
    all_.tight += known.tight && !c.tight;
    simulated_.emplace(c.id, std::pair(known, point.step));
    incumbents_.add(incumbent(known, scores(question_, known, point.step), grouping_));
}

}  // namespace stepcast
