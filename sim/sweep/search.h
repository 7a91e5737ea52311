// The branch and bound of a sweep: rounds of screening, with the most promising points simulated
// between them, then all points that the bounds do not exclude from the first row, or from any
// where each row is to be proven. Decisions fall between jobs in a fixed order, so threads and
// processes do not change the answer.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "model/experiment.h"
#include "sim/sweep/file.h"
#include "sim/sweep/pool.h"
#include "sim/sweep/sweep.h"

namespace stepcast {

// Sets every switch that does not affect the experiment's graph and memory to its value in
// Parallelism{}, so that a search simulates equivalent splits only once. Such switches say how a tp
// of 1, a stage without neighbours or a lone replica overlaps what it never exchanges. Splits of
// one workload and cluster that become equal have the same step and peak, to the last digit.
// Workloads other than transformers stay unchanged. Throws ConfigError as rank_groups() does.
ParallelPlan without_idle_switches(const Experiment& experiment);

class SweepProgress;

class SweepSearch {
public:
    SweepSearch(const SweepSpace& space, const SweepQuestion& question,
                const SweepOptions& options);
    ~SweepSearch();
    SweepSearch(const SweepSearch&) = delete;
    SweepSearch& operator=(const SweepSearch&) = delete;

    void screen_all();
    void simulate_rest();

    [[nodiscard]] const Incumbents& incumbents() const { return incumbents_; }
    [[nodiscard]] const Screened& screened() const { return all_; }
    [[nodiscard]] const std::map<PointId, std::pair<Candidate, Seconds>>& simulated() const {
        return simulated_;
    }
    // Of a simulated point, where it was replayed.
    [[nodiscard]] std::optional<MemoryUse> memory_of(PointId id) const {
        return steps_.at(step_key(id)).memory;
    }
    [[nodiscard]] std::uint64_t broken_bounds() const { return broken_bounds_; }
    // For each of the best, by how much of the step a point that was not simulated may be ahead of
    // it at its rank, at most; 0 = proven.
    [[nodiscard]] std::vector<double> gaps() const;
    // What was collected for a map: all points, unless other processes screened some.
    [[nodiscard]] MapCollector mapped() const { return map_->together(); }
    // How many of simulated() differ from another point only in switches without effect, and took
    // over its step.
    [[nodiscard]] std::uint64_t twins() const { return twins_; }

private:
    // What decides the step: a base, and a split without idle switches.
    using StepKey = std::pair<std::uint64_t, std::array<int, split_key_count>>;
    [[nodiscard]] bool excluded(const Candidate& c) const;
    [[nodiscard]] bool is_needless(const Candidate& c) const;
    [[nodiscard]] bool is_simulated(const Candidate& c) const;
    [[nodiscard]] bool promises(const Candidate& c) const;
    [[nodiscard]] Incumbent estimated(const Candidate& c) const {
        return incumbent(c, scores(question_, c, c.estimate), grouping_);
    }

    [[nodiscard]] std::vector<SweepJob> jobs_of(std::uint64_t first, std::uint64_t last) const;
    void scout(std::uint64_t first, std::uint64_t last);
    Screened screen_round(std::uint64_t first, std::uint64_t last);
    void take(Screened&& round);
    void drop_excluded();
    [[nodiscard]] std::vector<Candidate> promising(const std::vector<Candidate>& among) const;
    void simulate_promising(const std::vector<Candidate>& among);
    void simulate_other_rows();
    void simulate(const std::vector<Candidate>& points);
    [[nodiscard]] StepKey step_key(PointId id) const;
    [[nodiscard]] bool settles(const SimulatedPoint& twin, const Candidate& candidate) const;
    void note(const Candidate& c, const SimulatedPoint& point, bool is_twin);

    const SweepSpace& space_;
    const SweepQuestion& question_;
    Grouping grouping_;
    Incumbents incumbents_;
    std::optional<MapCollectors> map_;
    RunJobs run_;
    std::unique_ptr<SweepProgress> progress_;
    std::unique_ptr<SweepFile> file_;
    Screened all_;                 // without candidates
    std::vector<Candidate> open_;  // neither simulated nor excluded
    std::map<PointId, std::pair<Candidate, Seconds>> simulated_;
    std::map<StepKey, SimulatedPoint> steps_;  // one entry for equivalent splits
    std::set<PointId> refused_, scouted_;      // scouted_: simulated, and not met in a round
    std::uint64_t broken_bounds_ = 0, twins_ = 0;
};

}  // namespace stepcast
