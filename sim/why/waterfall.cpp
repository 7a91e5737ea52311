#include "sim/why/waterfall.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/input/check_experiment.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "sim/interval.h"
#include "sim/on_threads.h"
#include "sim/predict.h"

namespace stepcast {
namespace {

// Prefixes of keys that no step depends on by themselves: a framework's are laid into the keys that
// it sets, the others are names or are read by an execution alone.
constexpr std::array labels{"framework.",        "run.",
                            "recorded.",         "workload.name",
                            "cluster.name",      "cluster.source",
                            "cluster.inherits",  "cluster.gpu.name",
                            "cluster.gpu.alias", "cluster.price_per_gpu_hour"};
// A machine's own constants mean nothing one by one where another machine takes its place.
constexpr std::array counts{"cluster.nodes", "cluster.gpus_per_node"};
// Tables whose keys are changed together if there are too many, in this order.
constexpr std::array tables{"cluster.kernel.", "cluster.host.", "cluster.link.", "cluster.",
                            "workload.moe.",   "parallelism.",  "workload.",     "routing."};
constexpr const char* replicas = "parallelism.dp";

bool is_count(const std::string& key) { return std::ranges::count(counts, key) > 0; }

struct Player {
    std::string group;
    std::vector<std::size_t> changes;  // indices of the differing keys
};
using Changed = std::vector<bool>;  // which of the differing keys have B's value

// Both ends, and every experiment between them.
class Between {
public:
    Between(const Experiment& from, const Experiment& to)
        : from_(from), to_(to), changes_(changes_between(from, to)) {
        other_machine_ = from.cluster.gpu.name != to.cluster.gpu.name;
    }

    [[nodiscard]] const std::vector<KeyChange>& changes() const { return changes_; }
    // Whether the key belongs to the constants of another machine, which come together.
    [[nodiscard]] bool is_of_machine(std::size_t i) const {
        return other_machine_ && changes_[i].key.starts_with("cluster.") &&
               !is_count(changes_[i].key);
    }

    // Empty if the keys cannot be changed so: no legal experiment, or one without a forecast.
    std::optional<double> step(const Changed& changed) {
        {
            const std::lock_guard lock(mutex_);
            if (const auto known = value_in(steps_, changed)) return *known;
        }
        std::optional<double> found;
        try {
            const Experiment e = experiment(changed);
            check_experiment(e);
            std::vector<double> steps;
            for (const Seconds s : steps_of_draws(e)) steps.push_back(s.si());
            found = middle_of(std::move(steps));
        } catch (const ConfigError&) {
            found.reset();  // not legal
        }
        const std::lock_guard lock(mutex_);
        steps_.emplace(changed, found);
        return found;
    }
    [[nodiscard]] long simulated() const {
        return std::ranges::count_if(steps_, [](const auto& s) { return s.second.has_value(); });
    }
    [[nodiscard]] bool is_legal(const Changed& changed) const {
        try {
            check_experiment(experiment(changed));
            return true;
        } catch (const ConfigError&) {
            return false;
        }
    }

private:
    [[nodiscard]] Experiment experiment(const Changed& changed) const {
        Experiment e =
            std::ranges::count(changed, true) == static_cast<std::ptrdiff_t>(changed.size())
                ? to_
                : from_;
        bool other = false;
        for (const std::size_t i : indices_of(changes_)) {
            const Key* const key = find_key(changes_[i].key);
            if (!changed[i] || !key) continue;
            if (is_of_machine(i))
                other = true;
            else
                assign_text(*key, e, text_of(*key, to_));
        }
        if (other) take_machine(e);
        fill_replicas(e);
        return e;
    }
    // Constants that are no keys of their own (rows of tables) come with the rest.
    void take_machine(Experiment& e) const {
        const int nodes = e.cluster.nodes, gpus = e.cluster.gpus_per_node;
        e.cluster = to_.cluster;
        e.cluster.nodes = nodes;
        e.cluster.gpus_per_node = gpus;
    }
    // Both ends fill their machine, so the number of replicas follows from the other keys.
    static void fill_replicas(Experiment& e) {
        Parallelism& p = e.parallelism;
        p.dp = replicas_on(p, rank_count(e.cluster)).value_or(p.dp);
    }

    const Experiment &from_, &to_;
    std::vector<KeyChange> changes_;
    bool other_machine_ = false;
    std::mutex mutex_;
    std::map<Changed, std::optional<double>> steps_;
};

Changed of_players(const std::vector<Player>& players, std::size_t set, std::size_t changes,
                   const Changed& always) {
    Changed changed = always;
    changed.resize(changes);
    for (const std::size_t p : indices_of(players))
        if ((set >> p & 1U) != 0)
            for (const std::size_t i : players[p].changes) changed[i] = true;
    return changed;
}

// Merges the players of `set` into one, which takes the place of the first.
void merge(std::vector<Player>& players, std::size_t set) {
    std::optional<std::size_t> first;
    std::vector<Player> kept;
    for (const std::size_t p : indices_of(players)) {
        if ((set >> p & 1U) == 0) {
            kept.push_back(std::move(players[p]));
        } else if (!first) {
            first = kept.size();
            kept.push_back(std::move(players[p]));
        } else {
            Player& into = kept[*first];
            if (into.group.empty()) into.group = players[p].group;
            append(into.changes, players[p].changes);
        }
    }
    players = std::move(kept);
}

// The smallest set, by number of players, that `wanted` accepts.
template <class Wanted>
std::optional<std::size_t> smallest(std::size_t players, Wanted wanted) {
    std::vector<std::size_t> sets(std::size_t(1) << players);
    for (const std::size_t s : indices_of(sets)) sets[s] = s;
    std::ranges::stable_sort(sets, {}, [](std::size_t s) { return std::popcount(s); });
    for (const std::size_t s : sets)
        if (wanted(s)) return s;
    return std::nullopt;
}

// Keys that are legal only with others are changed with these: players are joined until every set
// of them is legal. Of an illegal set and the smallest legal one that holds it, one player is made.
template <class Legal>
void join_illegal(std::vector<Player>& players, Legal legal) {
    while (players.size() > 1) {
        const auto wrong =
            smallest(players.size(), [&](std::size_t s) { return !legal(players, s); });
        if (!wrong) return;
        const auto right = smallest(players.size(), [&](std::size_t s) {
            return (s & *wrong) == *wrong && legal(players, s);
        });
        merge(players, right.value_or((std::size_t(1) << players.size()) - 1));
    }
}

// Whether a key changes neither A's step by itself nor B's.
std::vector<std::size_t> idle_changes(Between& between) {
    const std::size_t n = between.changes().size();
    const Changed none(n, false), all(n, true);
    const auto first = between.step(none), last = between.step(all);
    std::vector<std::size_t> idle;
    std::mutex mutex;
    each_on_threads(0, n, [&](std::size_t i) {
        if (between.is_of_machine(i)) return;
        Changed only = none, but = all;
        only[i] = true;
        but[i] = false;
        if (between.step(only) != first || between.step(but) != last) return;
        const std::lock_guard lock(mutex);
        idle.push_back(i);
    });
    std::ranges::sort(idle);
    Changed together = none;
    for (const std::size_t i : idle) together[i] = true;
    if (between.step(together) != first) idle.clear();  // they matter to each other
    return idle;
}

std::vector<Player> players_of(const Between& between, const std::vector<std::size_t>& idle,
                               std::size_t most) {
    std::vector<Player> players;
    Player machine{"the machine", {}};
    for (std::size_t i = 0; i < between.changes().size(); ++i) {
        if (std::ranges::binary_search(idle, i)) continue;
        if (between.is_of_machine(i))
            machine.changes.push_back(i);
        else
            players.push_back({"", {i}});
    }
    if (!machine.changes.empty()) players.insert(players.begin(), machine);
    for (const std::string table : tables) {
        if (players.size() <= most) break;
        Player together{table.substr(0, table.size() - 1), {}};
        std::erase_if(players, [&](const Player& p) {
            const bool below = std::ranges::all_of(p.changes, [&](std::size_t i) {
                return between.changes()[i].key.starts_with(table) &&
                       !is_count(between.changes()[i].key);
            });
            if (below && p.group != machine.group) append(together.changes, p.changes);
            return below && p.group != machine.group;
        });
        if (!together.changes.empty()) players.push_back(together);
    }
    return players;
}

std::vector<double> values_of(Between& between, std::vector<Player>& players, const Changed& always,
                              int threads) {
    const std::size_t n = between.changes().size();
    const auto set_of = [&](const std::vector<Player>& of, std::size_t s) {
        return of_players(of, s, n, always);
    };
    join_illegal(players,
                 [&](const auto& of, std::size_t s) { return between.is_legal(set_of(of, s)); });
    for (;;) {
        std::vector<double> values(std::size_t(1) << players.size());
        bool priced = true;
        std::mutex mutex;
        each_on_threads(threads, values.size(), [&](std::size_t s) {
            const auto step = between.step(set_of(players, s));
            const std::lock_guard lock(mutex);
            values[s] = step.value_or(0);
            priced &= step.has_value();
        });
        if (priced) return values;
        join_illegal(players, [&](const auto& of, std::size_t s) {
            return between.step(set_of(of, s)).has_value();
        });
    }
}

void require_alike(const WaterfallSide& from, const WaterfallSide& to) {
    if (from.experiment.workload.kind == to.experiment.workload.kind) return;
    throw ConfigError("--waterfall: " + from.name + " is a " +
                      std::string(to_string(from.experiment.workload.kind)) + ", " + to.name +
                      " a " + std::string(to_string(to.experiment.workload.kind)) +
                      "; expected two workloads of one kind, whose keys mean the same");
}

WaterfallEnd end_of(const WaterfallSide& side, double step) {
    return {side.name, Seconds(step), side.measured};
}

}  // namespace

std::size_t bars_of(std::size_t tasks) {
    constexpr std::size_t least_bars = 6, most_tasks_of_all = 350'000'000;  // two core minutes
    std::size_t bars = most_bars;
    while (bars > least_bars && tasks << bars > most_tasks_of_all) --bars;
    return bars;
}

std::vector<KeyChange> changes_between(const Experiment& from, const Experiment& to) {
    std::vector<KeyChange> changes;
    for (const Key& key : all_keys()) {
        const std::string path(key.path);
        if (is_preset(key) || holds_rows(key) || path == replicas ||
            std::ranges::any_of(labels, [&](const char* l) { return path.starts_with(l); }))
            continue;
        std::string a = text_of(key, from), b = text_of(key, to);
        if (a != b) changes.push_back({path, std::move(a), std::move(b)});
    }
    return changes;
}

std::vector<double> shapley_values(std::size_t players, const std::vector<double>& value) {
    if (players > 20 || value.size() != std::size_t(1) << players)
        throw std::logic_error("shapley_values: a value for every set of at most 20 players");
    // weight[k]: share of the orders in which exactly a given set of k comes before a given player
    std::vector<double> weight(players);
    for (std::size_t k = 0; k < players; ++k)
        weight[k] = std::exp(std::lgamma(real(k + 1)) + std::lgamma(real(players - k)) -
                             std::lgamma(real(players) + 1));
    std::vector<double> found(players, 0.0);
    for (const std::size_t s : indices_of(value))
        for (std::size_t p = 0; p < players; ++p)
            if ((s >> p & 1U) == 0)
                found[p] += weight[as_index(std::popcount(s))] *
                            (value[s | std::size_t(1) << p] - value[s]);
    return found;
}

Waterfall waterfall(const WaterfallSide& from, const WaterfallSide& to, int threads) {
    require_alike(from, to);
    const Forecast a = predict(from.experiment), b = predict(to.experiment);
    Between between(from.experiment, to.experiment);
    const auto idle = idle_changes(between);
    std::vector<Player> players = players_of(between, idle, bars_of(std::max(a.tasks, b.tasks)));
    Changed always(between.changes().size(), false);
    for (const std::size_t i : idle) always[i] = true;
    const std::vector<double> values = values_of(between, players, always, threads);
    const std::vector<double> costs = shapley_values(players.size(), values);
    Waterfall found;
    found.from = end_of(from, a.step.p50.si());
    found.to = end_of(to, b.step.p50.si());
    for (const std::size_t p : indices_of(players)) {
        WaterfallBar bar{players[p].group, {}, Seconds(costs[p])};
        for (const std::size_t i : players[p].changes) bar.keys.push_back(between.changes()[i]);
        found.bars.push_back(std::move(bar));
    }
    std::ranges::stable_sort(found.bars, std::ranges::greater{},
                             [](const WaterfallBar& w) { return std::abs(w.cost.si()); });
    for (const std::size_t i : idle) found.without_effect.push_back(between.changes()[i]);
    const int dp_a = from.experiment.parallelism.dp, dp_b = to.experiment.parallelism.dp;
    if (dp_a != dp_b)
        found.follows.push_back({replicas, std::to_string(dp_a), std::to_string(dp_b)});
    found.unexplained =
        shown_step(found.to) - shown_step(found.from) - (found.to.step - found.from.step);
    found.reach = reach_of_pair(a, b, shipped_scatter().pairs);
    found.simulated = between.simulated();
    return found;
}

}  // namespace stepcast
