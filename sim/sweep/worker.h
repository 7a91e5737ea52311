// The work that a sweep hands out, and who does it: walking a part of the space through the closed form, or simulating
// single points. Work and results are plain values, so that threads and processes do the same.
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

// Why points were left out, counted. Complaints that differ in numbers only are one reason, with the range of each number:
// "parallelism.global_batch: 96 is no multiple of dp x micro_batch = 64..256".
using Reasons = std::map<std::string, std::uint64_t, std::less<>>;

void count_reason(Reasons& reasons, std::string_view reason, std::uint64_t points);

// Of two texts alike but for their numbers: with the ranges that hold those of both. Otherwise "".
std::string with_ranges(std::string_view a, std::string_view b);

// What is asked, in full: every process derives the same space from it.
struct SweepQuestion {
    Experiment experiment;
    std::vector<Override> stated;  // by its file and --set: lie over presets that vary
    std::vector<Axis> axes;
    std::vector<Constraint> where;
    Objective objective = Objective::step;
    std::optional<Objective> second;  // a Pareto front
    int top = 10;
    std::optional<Training> training;
    std::optional<Seconds> within;  // of all of it: the least machines are wanted
};

// The question as it is answered: a shortest step is most tokens/s where the work of a step differs, as a step alone would
// then favour the least work.
bool work_differs(const SweepQuestion& question);
SweepQuestion answerable(SweepQuestion question);

// Of a rank of this cluster: what it states, else what the market of the training asks for its GPU; 0 = not known.
double price_per_gpu_hour(const SweepQuestion& question, const Cluster& cluster);

double score(Objective objective, const Candidate& candidate, Seconds step);

// What the best of each is wanted of: of each number of ranks where that varies, of each setting of all keys that are no
// split where machines or systems vary.
enum class Grouping : std::uint8_t { none, ranks, settings };
Grouping grouping(const SweepQuestion& question);
std::uint64_t group_of(Grouping grouping, const Candidate& candidate);
Score scores(const SweepQuestion& question, const Candidate& candidate, Seconds step);
// As scores() of the lower bound, with room for rounding.
Score lower_scores(const SweepQuestion& question, const Candidate& candidate);

// Positions along two varied keys -> best estimate of the step, or of the time of a token where tokens rank.
using Cells = std::map<std::pair<int, int>, Seconds>;
void merge(Cells& cells, const Cells& more);

struct Screened {
    std::uint64_t legal = 0, bounded_away = 0;
    Reasons illegal, infeasible;
    std::vector<Candidate> candidates;
    Cells cells;
    friend bool operator==(const Screened&, const Screened&) = default;
};
void merge(Screened& all, Screened&& more);

struct SimulatedPoint {
    PointId id;
    Seconds step;
    std::string refused;  // why it does not count: a constraint on the step, or what the event engine cannot do
    friend bool operator==(const SimulatedPoint&, const SimulatedPoint&) = default;
};

// Either items to screen, or points to simulate.
struct SweepJob {
    std::vector<std::uint64_t> items;
    std::vector<Candidate> points;
    std::vector<Incumbent> incumbents;  // when the job was made
};
struct SweepJobResult {
    Screened screened;
    std::vector<SimulatedPoint> simulated;
};

// What the threads of a process find for each other.
class SweepCommons {
public:
    explicit SweepCommons(MapCollectors* map = nullptr) : map_(map) {}
    // Of a base, as long as any thread is at it.
    [[nodiscard]] std::shared_ptr<FoundPipelines> pipelines(std::uint64_t base);
    [[nodiscard]] MapCollectors* map() const { return map_; }

private:
    MapCollectors* map_;
    std::mutex mutex_;
    std::map<std::uint64_t, std::weak_ptr<FoundPipelines>> pipelines_;
};

// One thread's.
class SweepWorker {
public:
    SweepWorker(const SweepSpace& space, const SweepQuestion& question, std::shared_ptr<SweepCommons> commons);
    SweepJobResult run(const SweepJob& job);

private:
    struct Base {
        std::uint64_t number;
        SweepBase base;
        std::shared_ptr<FoundPipelines> pipelines;
        std::optional<PointEvaluator> evaluator;  // from its first legal split on
    };
    Base& at_base(std::uint64_t number);
    void screen(std::uint64_t item, const Incumbents& incumbents, Screened& out);
    std::optional<Candidate> judge(Base& base, std::uint64_t inner, const Parallelism& split, Screened& out) const;
    void screen_point(Base& base, std::uint64_t inner, const Parallelism& split, const Incumbents& incumbents,
                      Screened& out);
    void note_cell(std::uint64_t base, const Parallelism& split, Seconds estimate, Cells& cells);
    SimulatedPoint simulate(const Candidate& candidate) const;

    const SweepSpace& space_;
    const SweepQuestion& question_;
    std::shared_ptr<SweepCommons> commons_;
    MapCollector* map_;  // nullptr: none is asked for
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
