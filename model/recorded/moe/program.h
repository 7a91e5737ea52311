// Appends tasks in the order in which a training script issues them. Each follows the last task of
// every rank that it occupies.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/graph/task_graph.h"

namespace stepcast {

class Program {
public:
    explicit Program(TaskGraph& graph)
        : Program(graph, TasksByRank(as_index(graph.rank_count()), no_task)) {}
    // Continues after the given last task of each rank.
    Program(TaskGraph& graph, TasksByRank last) : graph_(graph), last_(std::move(last)) {}

    // Adds one task on one rank's lane, or on the same lane of all ranks.
    TaskId on_rank(int rank, std::string_view name, Phase phase, Op op, Lane lane = Lane::compute) {
        const Place place(rank, lane);
        return append(name, phase, std::move(op), {&place, 1});
    }
    TaskId on_all(std::string_view name, Phase phase, Op op, Lane lane = Lane::collective) {
        std::vector<Place> places;
        for (int r = 0; r < graph_.rank_count(); ++r) places.emplace_back(r, lane);
        return append(name, phase, std::move(op), places);
    }
    void on_each(std::string_view name, Phase phase, const Op& op, Lane lane = Lane::compute) {
        for (int r = 0; r < graph_.rank_count(); ++r) on_rank(r, name, phase, op, lane);
    }

    // Adds work of one host or of every host that waits for no device, so the host runs ahead
    // unless launches block.
    void ahead(int rank, std::string_view name, Phase phase, const HostWork& work) {
        const Place place(rank, Lane::host);
        graph_.add(graph_.task_of(name, phase, work, 0), {&place, 1}, {});
    }
    void ahead(std::string_view name, Phase phase, const HostWork& work) {
        for (int r = 0; r < graph_.rank_count(); ++r) ahead(r, name, phase, work);
    }

    // Makes every host wait for its device.
    void synchronise(Phase phase) {
        on_each("synchronise", phase, HostWork{HostWork::Kind::read, 0}, Lane::host);
    }

    // Lets the next task of every rank follow `task`, which another program added to this graph.
    void follow_all(TaskId task) { std::ranges::fill(last_, task); }

    [[nodiscard]] const TasksByRank& last() const { return last_; }

private:
    TaskId append(std::string_view name, Phase phase, Op op, std::span<const Place> places) {
        std::vector<TaskId> after;
        for (const Place& place : places) {
            const TaskId last = last_[as_index(place.rank())];
            if (last != no_task && !contains(after, last)) after.push_back(last);
        }
        const bool on_host = places.front().lane() == Lane::host;
        const TaskId task = graph_.add(
            graph_.task_of(name, phase, std::move(op), on_host ? 0.0F : 1.0F), places, after);
        for (const Place& place : places) last_[as_index(place.rank())] = task;
        return task;
    }

    TaskGraph& graph_;
    TasksByRank last_;
};

}  // namespace stepcast
