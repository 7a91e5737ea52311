// The jobs of a sweep and who does them: a job walks a part of the space with the closed form, or
// simulates single points. Jobs and results are plain values, so threads and processes run the same
// code.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "sim/sweep/constraints.h"
#include "sim/sweep/incumbents.h"
#include "sim/sweep/map_collector.h"
#include "sim/sweep/point_evaluator.h"

namespace stepcast {

// Why points were left out, with counts. Messages that differ only in numbers are one reason, with
// the range of each number: "parallelism.global_batch: 96 is no multiple of dp x micro_batch
// = 64..256".
using Reasons = std::map<std::string, std::uint64_t, std::less<>>;

// The whole question: every process derives the same space from it.
struct SweepQuestion {
    Experiment experiment;
    // keys from the file and from --set, which override varying presets
    std::vector<Override> stated;
    std::vector<Axis> axes;
    std::vector<Constraint> where;
    Objective objective = Objective::step;
    std::optional<Objective> second;  // set: a Pareto front is asked for
    int top = 10;
    std::optional<Training> training;
    std::optional<Seconds> within;  // time for the whole training: the least machines are wanted
};

// The question that is answered. If the work of a step differs between points, the shortest step
// becomes most tokens/s, because a step time alone would favour the least work.
bool work_differs(const SweepQuestion& question);
SweepQuestion answerable(SweepQuestion question);

// Price of a rank of this cluster: what the cluster states, else the training market's price of its
// GPU; 0 = not known.
double price_per_gpu_hour(const SweepQuestion& question, const Cluster& cluster);

double score(Objective objective, const Candidate& candidate, Seconds step);

// Of which groups the best is wanted too: each number of ranks if that varies, or each setting of
// other keys if machines or systems vary.
enum class Grouping : std::uint8_t { none, ranks, settings };
Grouping grouping(const SweepQuestion& question);
std::uint64_t group_of(Grouping grouping, const Candidate& candidate);
Score scores(const SweepQuestion& question, const Candidate& candidate, Seconds step);

// scores() of the lower bound, with a margin for rounding.
Score lower_scores(const SweepQuestion& question, const Candidate& candidate);

Incumbent incumbent(const Candidate& candidate, const Score& score, Grouping grouping);

// Positions along two varied keys -> the best estimate of the step, or of the time of a token if
// tokens rank.
using MapCells = std::map<std::pair<int, int>, Seconds>;
void merge(MapCells& cells, const MapCells& more);

struct Screened {
    std::uint64_t legal = 0, bounded_away = 0, tight = 0;
    Reasons illegal, infeasible;
    std::vector<Candidate> candidates;
    MapCells cells;
    friend bool operator==(const Screened&, const Screened&) = default;
};
void merge(Screened& all, Screened&& more);

struct SimulatedPoint {
    PointId id;
    Seconds step;
    // why it does not count: it breaks a constraint on the step, its memory as the allocator is
    // replayed does not fit, or the event engine cannot simulate it
    std::string refused;
    // as the allocator is replayed: less is left free than the margin
    bool tight = false;
    // near the device's limit, and not replayed because the job's incumbents exclude it
    bool unreplayed = false;
    // what was replayed; other processes do not send it
    std::optional<MemoryUse> memory = std::nullopt;
    friend bool operator==(const SimulatedPoint&, const SimulatedPoint&) = default;
};

// Items to screen or to scout, or points to simulate. Of scouted items only the best by the coarse
// bound come back, each of another kind, as candidates with their estimate; nothing is counted.
struct SweepJob {
    std::vector<std::uint64_t> items = {};
    std::uint64_t scouted = 0;  // how many are to come back; 0: the items are screened
    std::vector<Candidate> points = {};
    // what was known when the job was made
    std::vector<Incumbent> incumbents = {};
    MapCells cells = {};
};
struct SweepJobResult {
    Screened screened;
    std::vector<SimulatedPoint> simulated;
};

// What the threads of a process share.
class SweepCommons {
public:
    explicit SweepCommons(MapCollectors* map = nullptr) : map_(map) {}
    // The pipelines of bases that differ in the software's switches alone, kept as long as any
    // thread works on one of them.
    [[nodiscard]] std::shared_ptr<FoundPipelines> pipelines(const SweepSpace& space,
                                                            std::uint64_t base);
    [[nodiscard]] MapCollectors* map() const { return map_; }

private:
    MapCollectors* map_;
    std::mutex mutex_;
    std::map<std::uint64_t, std::weak_ptr<FoundPipelines>> pipelines_;
};

// Whether the coarse bound can exclude a point alone: no row, limit or map needs more of it.
bool coarse_excludes(const SweepQuestion& question);

// One thread has its own.
class SweepWorker {
public:
    SweepWorker(const SweepSpace& space, const SweepQuestion& question,
                std::shared_ptr<SweepCommons> commons);
    SweepJobResult run(const SweepJob& job);

private:
    struct Base {
        std::uint64_t number;
        SweepBase base;
        std::shared_ptr<FoundPipelines> pipelines;
        std::optional<PointEvaluator> evaluator;  // made at its first legal split
    };
    Base& at_base(std::uint64_t number);
    void screen(std::uint64_t item, const Incumbents& incumbents, Screened& out);
    [[nodiscard]] Screened scout(const SweepJob& job);
    std::optional<Candidate> judge(Base& base, std::uint64_t inner, const ParallelPlan& split,
                                   Screened& out) const;
    [[nodiscard]] Candidate candidate(const Base& base, std::uint64_t inner,
                                      const ParallelPlan& split, const StepBound& bound) const;
    [[nodiscard]] std::string broken_limit(const Base& base, const ParallelPlan& split,
                                           const Candidate& c) const;
    [[nodiscard]] bool is_settled(const Base& base, const ParallelPlan& split,
                                  const Candidate& coarse, const Incumbents& incumbents,
                                  MapCells& cells);
    void screen_point(Base& base, std::uint64_t inner, const ParallelPlan& split,
                      const Incumbents& incumbents, Screened& out);
    [[nodiscard]] static bool is_shown(const Candidate& c);
    [[nodiscard]] Seconds shown_in_cell(Seconds step, const Candidate& c) const;
    [[nodiscard]] std::pair<int, int> cell_of(std::uint64_t base, const ParallelPlan& split) const;
    [[nodiscard]] Seconds& best_of_cell(std::uint64_t base, const ParallelPlan& split,
                                        MapCells& cells);
    [[nodiscard]] bool betters_cell(std::uint64_t base, const ParallelPlan& split, Seconds shown,
                                    MapCells& cells);
    void note_cell(std::uint64_t base, const ParallelPlan& split, Seconds shown, MapCells& cells);
    [[nodiscard]] SimulatedPoint simulate(const Candidate& candidate,
                                          const Incumbents& incumbents) const;

    const SweepSpace& space_;
    const SweepQuestion& question_;
    std::shared_ptr<SweepCommons> commons_;
    MapCollector* map_;  // nullptr: no map is asked for
    Wanted wanted_;
    Grouping grouping_;
    std::vector<VariedKey> map_keys_;  // none or two
    std::unique_ptr<Base> base_;
    std::pair<int, int> last_cell_;
    Seconds* last_best_ = nullptr;
};

Wanted wanted(const SweepQuestion& question);

// The two keys of the heat map: the first two that vary.
std::vector<VariedKey> map_keys(const SweepSpace& space);

}  // namespace stepcast
