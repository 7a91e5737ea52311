// Builds the graphs of a calibration task by task. Internal to calibrate/.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast {

class SweepGraphs {
public:
    // `calls`: how many host calls each task costs; 0 on a device that is a host itself.
    SweepGraphs(int ranks, bool blocking, float calls)
        : ranks_(ranks), blocking_(blocking), calls_(calls) {}

    void begin() { graphs_.emplace_back(ranks_, blocking_); }
    void align() { together("align", Barrier{}); }
    void on_each(std::string_view name, const Op& op) {
        const OpId id = last().add_op(op);
        for (int rank = 0; rank < ranks_; ++rank) {
            last().add({last().name_id(name), Phase::forward, id, calls_},
                       {Place(rank, Lane::compute)}, {});
        }
    }
    // One task over the first `members` ranks, 0 = all.
    void together(std::string_view name, Op op, int members = 0,
                  std::span<const TaskId> after = {}) {
        std::vector<Place> places;
        for (int rank = 0; rank < (members > 0 ? members : ranks_); ++rank)
            places.emplace_back(rank, Lane::collective);
        last().add(last().task_of(name, Phase::forward, std::move(op), calls_), places, after);
    }
    void from_first_to_second(std::string_view name, Op op) {
        last().add(last().task_of(name, Phase::forward, std::move(op), calls_),
                   {Place(0, Lane::send_up), Place(1, Lane::receive_up)}, {});
    }
    [[nodiscard]] int ranks() const { return ranks_; }
    [[nodiscard]] bool empty() const { return graphs_.empty(); }
    TaskGraph& last() { return graphs_.back(); }
    std::vector<TaskGraph> take() { return std::move(graphs_); }

private:
    int ranks_;
    bool blocking_;
    float calls_;
    std::vector<TaskGraph> graphs_;
};

}  // namespace stepcast
