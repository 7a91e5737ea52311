// Appends tasks the way a training script issues them: each one after the last task of every rank it occupies.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast {

class Program {
public:
    explicit Program(TaskGraph& graph) : graph_(graph), last_(static_cast<std::size_t>(graph.rank_count())) {}
    // Goes on after `last`, one task a rank; nothing where there is none.
    Program(TaskGraph& graph, std::vector<std::optional<TaskId>> last) : graph_(graph), last_(std::move(last)) {}

    // One task on one rank's lane, or on the same lane of all ranks.
    TaskId on_rank(int rank, std::string_view name, Phase phase, Op op, Lane lane = Lane::compute);
    TaskId on_all(std::string_view name, Phase phase, Op op, Lane lane = Lane::collective);
    // The same single-rank op on every rank.
    void on_each(std::string_view name, Phase phase, const Op& op, Lane lane = Lane::compute);

    // Work of one host, or of every host, that waits for no device: without launch blocking the host runs ahead.
    void ahead(int rank, std::string_view name, Phase phase, const HostWork& work);
    void ahead(std::string_view name, Phase phase, const HostWork& work);

    // Every host waits for its device.
    void synchronise(Phase phase);

    // What comes next on every rank follows `task`, which was added to the graph directly.
    void follow_all(TaskId task);

    [[nodiscard]] const std::vector<std::optional<TaskId>>& last() const { return last_; }
    [[nodiscard]] TaskGraph& graph() { return graph_; }
    [[nodiscard]] int rank_count() const { return graph_.rank_count(); }

private:
    TaskId append(std::string_view name, Phase phase, Op op, std::span<const Place> places);

    TaskGraph& graph_;
    std::vector<std::optional<TaskId>> last_;
};

}  // namespace stepcast
