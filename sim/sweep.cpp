#include "sim/sweep.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "model/errors.h"
#include "sim/predict.h"
#include "sim/sweep_file.h"
#include "sim/sweep_mpi.h"
#include "sim/sweep_team.h"

namespace stepcast {
namespace {

constexpr std::uint64_t round_points = 4'000'000;  // legal points of a round, about: they bound the memory
constexpr std::uint64_t small_space = 100'000;     // points that one round takes
constexpr std::size_t jobs_of_round = 64;
constexpr std::size_t batch = 16;  // points simulated before the incumbents are looked at again

// The order in which items are screened: every round meets all regions of the space.
class Order {
public:
    explicit Order(std::uint64_t items) : items_(items) {
        for (const std::uint64_t prime : {1048573ULL, 1048571ULL, 1048559ULL, 1048549ULL})
            if (std::gcd(prime, items) == 1) stride_ = prime;
    }
    [[nodiscard]] std::uint64_t item(std::uint64_t position) const {
        return position % items_ * (stride_ % items_) % items_;
    }

private:
    std::uint64_t items_, stride_ = 1;
};

class Progress {
public:
    Progress(std::function<void(std::string_view)> show, std::uint64_t points)
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
        const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        std::string text = fmt::format("{}: {:.3g} of {:.3g} points ({:.3g} legal, {:.3g}/s)", what,
                                       static_cast<double>(walked_), static_cast<double>(points_),
                                       static_cast<double>(legal_), static_cast<double>(legal_) / elapsed);
        if (simulated_ > 0) text += fmt::format(", {} simulated, best {}", simulated_, to_string(best_));
        if (walked_ < points_)
            text += fmt::format(", {:.0f} s left",
                                elapsed * (static_cast<double>(points_) / static_cast<double>(walked_) - 1));
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

class Search {
public:
    Search(const SweepSpace& space, const SweepQuestion& question, const SweepOptions& options)
        : space_(space),
          question_(question),
          incumbents_(wanted(question)),
          run_(open_team(space, question, options.threads)),
          progress_(options.progress, space.point_count()) {
        if (!options.out.empty()) file_ = std::make_unique<SweepFile>(options.out, question, options.resume);
    }

    void screen_all() {
        const std::uint64_t items = space_.item_count();
        std::uint64_t first = 0, size = space_.point_count() <= small_space ? items : items / 64 + 1;
        for (std::uint64_t number = 0; first < items; ++number) {
            const std::uint64_t last = std::min(items, first + size);
            take(screen_round(number, first, last));
            simulate_promising();
            drop_excluded();
            first = last;
            const double legal_of_item = std::max(1.0, static_cast<double>(all_.legal) / static_cast<double>(last));
            size =
                std::clamp<std::uint64_t>(static_cast<std::uint64_t>(round_points / legal_of_item), 1, items / 4 + 1);
        }
    }

    // By rising lower bound, so that the first who are simulated exclude most.
    void simulate_rest() {
        std::ranges::sort(open_, {}, [&](const Candidate& c) { return std::pair(lower_scores(question_, c), c.id); });
        for (std::size_t next = 0; next < open_.size();) {
            std::vector<Candidate> chosen;
            for (; next < open_.size() && chosen.size() < batch; ++next) {
                const Candidate& c = open_[next];
                if (is_simulated(c)) continue;
                if (excluded(c))
                    ++all_.bounded_away;
                else
                    chosen.push_back(c);
            }
            progress_.waiting(open_.size() - next);
            simulate(chosen);
        }
        open_.clear();
        if (file_) file_->complete();
    }

    [[nodiscard]] const Incumbents& incumbents() const { return incumbents_; }
    [[nodiscard]] const Screened& screened() const { return all_; }
    [[nodiscard]] const std::map<PointId, std::pair<Candidate, Seconds>>& simulated() const { return simulated_; }
    [[nodiscard]] std::uint64_t broken_bounds() const { return broken_bounds_; }
    [[nodiscard]] Cells take_cells() { return std::move(all_.cells); }

private:
    [[nodiscard]] bool excluded(const Candidate& c) const {
        return incumbents_.excludes(lower_scores(question_, c), c.id, c.ranks);
    }
    [[nodiscard]] bool is_simulated(const Candidate& c) const {
        return simulated_.contains(c.id) || refused_.contains(c.id);
    }

    Screened screen_round(std::uint64_t number, std::uint64_t first, std::uint64_t last) {
        if (file_)
            if (auto known = file_->round(number)) {
                progress_.screened(*known);
                return std::move(*known);
            }
        const Order order(space_.item_count());
        std::vector<SweepJob> jobs(std::min<std::uint64_t>(jobs_of_round, last - first));
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            jobs[j].incumbents = incumbents_.all();
            const auto begin = first + (last - first) * j / jobs.size(),
                       end = first + (last - first) * (j + 1) / jobs.size();
            for (std::uint64_t position = begin; position < end; ++position)
                jobs[j].items.push_back(order.item(position));
            std::ranges::sort(jobs[j].items);  // neighbours share what was priced
        }
        Screened round;
        for (SweepJobResult& result : run_(jobs, [&](const SweepJobResult& r) { progress_.screened(r.screened); }))
            merge(round, std::move(result.screened));
        if (file_) file_->add_round(number, round);
        return round;
    }

    void take(Screened&& round) {
        open_.insert(open_.end(), round.candidates.begin(), round.candidates.end());
        round.candidates.clear();
        merge(all_, std::move(round));
        drop_excluded();
    }

    void drop_excluded() {
        const auto gone = std::ranges::remove_if(open_, [&](const Candidate& c) {
            if (is_simulated(c)) return true;
            if (!excluded(c)) return false;
            ++all_.bounded_away;
            return true;
        });
        open_.erase(gone.begin(), gone.end());
    }

    [[nodiscard]] Score estimated(const Candidate& c) const { return scores(question_, c, c.estimate); }
    [[nodiscard]] bool promises(const Candidate& c) const {
        return !is_simulated(c) && !incumbents_.excludes(estimated(c), c.id, c.ranks);
    }

    // The best by estimate, before the rest: they make the bounds exclude much.
    void simulate_promising() {
        const std::size_t most = question_.second ? 8 * batch : std::max(batch, incumbents_.wanted().top);
        Incumbents promising(incumbents_.wanted().front || incumbents_.wanted().by_ranks ? incumbents_.wanted()
                                                                                         : Wanted{.top = most});
        std::map<PointId, Candidate> chosen;
        for (const Candidate& c : open_)
            if (promises(c) && !promising.excludes(estimated(c), c.id, c.ranks)) {
                promising.add({estimated(c), c.id, c.ranks});
                chosen.emplace(c.id, c);
            }
        std::vector<Candidate> now;
        for (const Incumbent& i : promising.all()) {
            const Candidate& c = chosen.at(i.id);
            if (!promises(c) || std::ranges::find(now, c) != now.end()) continue;
            now.push_back(c);
            if (now.size() == batch) simulate(std::exchange(now, {}));
        }
        simulate(now);
    }

    void simulate(const std::vector<Candidate>& points) {
        std::vector<SweepJob> jobs;
        std::vector<std::pair<Candidate, SimulatedPoint>> found;
        for (const Candidate& c : points) {
            if (const SimulatedPoint* known = file_ ? file_->simulated(c.id) : nullptr)
                found.emplace_back(c, *known);
            else
                jobs.push_back({.items = {}, .points = {c}, .incumbents = {}});
        }
        const auto on_done = [&](const SweepJobResult& r) {
            progress_.simulated(incumbents_.best().empty() ? r.simulated.front().step : best_step());
            if (file_) file_->add(r.simulated.front(), space_.settings_of(r.simulated.front().id));
        };
        const std::vector<SweepJobResult> results = run_(jobs, on_done);
        for (std::size_t j = 0; j < jobs.size(); ++j)
            found.emplace_back(jobs[j].points.front(), results[j].simulated.front());
        for (const auto& [candidate, point] : found) note(candidate, point);
    }

    void note(const Candidate& c, const SimulatedPoint& point) {
        if (!point.refused.empty()) {
            refused_.insert(c.id);
            ++all_.infeasible[point.refused];
            return;
        }
        constexpr double rounding = 1e-9;
        if (point.step < c.lower * (1 - rounding)) ++broken_bounds_;
        simulated_.emplace(c.id, std::pair(c, point.step));
        incumbents_.add({scores(question_, c, point.step), c.id, c.ranks});
    }
    [[nodiscard]] Seconds best_step() const { return simulated_.at(incumbents_.best().front().id).second; }

    const SweepSpace& space_;
    const SweepQuestion& question_;
    Incumbents incumbents_;
    RunJobs run_;
    Progress progress_;
    std::unique_ptr<SweepFile> file_;
    Screened all_;                 // without candidates
    std::vector<Candidate> open_;  // neither simulated nor excluded
    std::map<PointId, std::pair<Candidate, Seconds>> simulated_;
    std::set<PointId> refused_;
    std::uint64_t broken_bounds_ = 0;
};

SweepRow row_of(const SweepSpace& space, const Candidate& c, Seconds step) {
    SweepRow row{
        .settings = space.settings_of(c.id), .step = step, .lower = c.lower, .estimate = c.estimate, .peak = c.peak};
    row.tokens_per_second = c.tokens / step.si();
    row.cost_per_token = c.price * step.si() / c.tokens;
    row.ranks = c.ranks;
    row.forecast = predict(space.experiment_of(c.id));
    return row;
}

std::vector<SweepRow> rows_of(const SweepSpace& space, const Search& search, const std::vector<Incumbent>& wanted,
                              int threads) {
    std::vector<SweepRow> rows(wanted.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        for (std::size_t i = next++; i < wanted.size(); i = next++) {
            const auto& [candidate, step] = search.simulated().at(wanted[i].id);
            rows[i] = row_of(space, candidate, step);
        }
    };
    std::vector<std::jthread> others;
    const int count = threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    for (int t = 1; t < count; ++t) others.emplace_back(work);
    work();
    return rows;
}

// From estimates where a closed form covers the workload, else from what was simulated.
std::optional<HeatMap> heat_map(const SweepSpace& space, Search& search) {
    const auto keys = map_keys(space);
    if (keys.empty()) return std::nullopt;
    HeatMap map{.row_key = keys[0], .column_key = keys[1], .rows = {}, .columns = {}, .step = {}};
    Cells cells = search.take_cells();
    if (cells.empty()) {
        map.simulated = true;
        for (const auto& [id, found] : search.simulated()) {
            const Parallelism split = space.experiment_of(id).parallelism;
            const std::pair at{space.position(keys[0], id.base, split), space.position(keys[1], id.base, split)};
            merge(cells, {{at, found.second}});
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

// The most frequent reasons, for a complaint.
std::string reasons(const std::map<std::string, std::uint64_t, std::less<>>& counts) {
    std::vector<std::pair<std::uint64_t, std::string>> sorted;
    for (const auto& [reason, points] : counts) sorted.emplace_back(points, reason);
    std::ranges::sort(sorted, std::greater<>());
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, sorted.size()); ++i)
        text += fmt::format("{}{} ({})", i == 0 ? "" : "; ", sorted[i].second, sorted[i].first);
    return text;
}

void check_found(const SweepSpace& space, const Search& search) {
    const Screened& s = search.screened();
    if (s.legal == 0)
        throw ConfigError(
            fmt::format("sweep: none of {} configurations is legal: {}; expected other values, "
                        "--vary parallelism.dp=rest, or --vary parallelism=all",
                        space.point_count(), reasons(s.illegal)));
    if (search.simulated().empty())
        throw ConfigError(
            fmt::format("sweep: none of {} legal configurations is feasible: {}; expected a larger space "
                        "or looser --where",
                        s.legal, reasons(s.infeasible)));
}

void check(const SweepQuestion& q) {
    if (q.top < 1) throw ConfigError(fmt::format("--top {}: expected at least 1", q.top));
    const bool cost = q.objective == Objective::cost || q.second == Objective::cost;
    const bool varies = std::ranges::any_of(q.axes, [](const Axis& axis) {
        return axis.key == "cluster.price_per_gpu_hour" || axis.key == "cluster.preset";
    });
    if (cost && !varies && q.experiment.cluster.price_per_gpu_hour == 0)
        throw ConfigError(
            "--objective cost: cluster.price_per_gpu_hour is 0; expected what a rank costs an hour, for "
            "example --set cluster.price_per_gpu_hour=2.5");
    check_constraints(q.where, q.axes, q.experiment);
}

}  // namespace

SweepAnswer sweep(const SweepQuestion& question, const SweepOptions& options) {
    check_axes(question.axes, question.experiment);
    check(question);
    const SweepSpace space(question.experiment, question.axes);
    Search search(space, question, options);
    search.screen_all();
    search.simulate_rest();
    check_found(space, search);
    SweepAnswer result{.experiment = question.experiment.name,
                       .cluster = question.experiment.cluster.name,
                       .calibrated = question.experiment.cluster.fitted.has_value(),
                       .objective = question.objective,
                       .second = question.second,
                       .asked = question.top,
                       .varied = space.varied_keys()};
    for (const Constraint& c : question.where) result.where.push_back(c.text);
    const Screened& s = search.screened();
    SweepCounts& counts = result.counts;
    counts.points = space.point_count();
    counts.legal = s.legal;
    counts.bounded_away = s.bounded_away;
    counts.simulated = search.simulated().size();
    counts.feasible = counts.bounded_away + counts.simulated;
    counts.illegal = {s.illegal.begin(), s.illegal.end()};
    counts.infeasible = {s.infeasible.begin(), s.infeasible.end()};
    result.broken_bounds = search.broken_bounds();
    result.best = rows_of(space, search, search.incumbents().best(), options.threads);
    std::vector<Incumbent> by_ranks;
    for (const auto& [ranks, best] : search.incumbents().best_by_ranks()) by_ranks.push_back(best);
    result.scaling = rows_of(space, search, by_ranks, options.threads);
    result.map = heat_map(space, search);
    return result;
}

bool is_sweep_helper() { return mpi_process() > 0; }

void help_sweep(const SweepQuestion& question) {
    check_axes(question.axes, question.experiment);
    check(question);
    const SweepSpace space(question.experiment, question.axes);
    help_mpi_team(space, question);
}

}  // namespace stepcast
