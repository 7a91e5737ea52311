#include "model/task_graph.h"

#include <algorithm>
#include <stdexcept>

namespace stepcast {

std::string_view to_string(Lane lane) {
    switch (lane) {
        case Lane::compute: return "compute";
        case Lane::collective: return "collective";
        case Lane::send_up: return "send_up";
        case Lane::receive_up: return "receive_up";
        case Lane::send_down: return "send_down";
        case Lane::receive_down: return "receive_down";
        case Lane::host: return "host";
    }
    return "?";
}

std::string_view to_string(Phase phase) {
    switch (phase) {
        case Phase::forward: return "forward";
        case Phase::backward: return "backward";
        case Phase::gradient_sync: return "gradient_sync";
        case Phase::optimizer: return "optimizer";
    }
    return "?";
}

TaskGraph::TaskGraph(int rank_count, bool launch_blocking)
    : rank_count_(rank_count), launch_blocking_(launch_blocking), multiplicity_(static_cast<std::size_t>(rank_count), 1) {}

NameId TaskGraph::name_id(std::string_view name) {
    // A step has some tens of names; the newest are asked for most.
    for (std::size_t i = names_.size(); i-- > 0;)
        if (names_[i] == name) return static_cast<NameId>(i);
    names_.emplace_back(name);
    return static_cast<NameId>(names_.size() - 1);
}

OpId TaskGraph::add_op(Op op) {
    ops_.push_back(std::move(op));
    return static_cast<OpId>(ops_.size() - 1);
}

TaskId TaskGraph::add(NameId name, Phase phase, OpId op, std::span<const Place> places, std::span<const TaskId> after, float host_calls) {
    const auto task = static_cast<TaskId>(op_.size());
    if (places.empty()) throw std::logic_error("task_graph: task " + std::to_string(task) + " has no place");
    for (const Place& place : places)
        if (place.rank() >= rank_count_) throw std::logic_error("task_graph: task " + std::to_string(task) + " on rank " + std::to_string(place.rank()) + " of " + std::to_string(rank_count_));
    for (const TaskId earlier : after)
        if (earlier >= task) throw std::logic_error("task_graph: task " + std::to_string(task) + " after task " + std::to_string(earlier) + ", which is not earlier");
    places_.insert(places_.end(), places.begin(), places.end());
    place_begin_.push_back(static_cast<std::uint32_t>(places_.size()));
    predecessors_.insert(predecessors_.end(), after.begin(), after.end());
    predecessor_begin_.push_back(static_cast<std::uint32_t>(predecessors_.size()));
    op_.push_back(op);
    name_.push_back(name);
    phase_.push_back(phase);
    host_calls_.push_back(host_calls);
    return task;
}

TaskId TaskGraph::add(std::string_view name, Phase phase, Op op, std::span<const Place> places, std::span<const TaskId> after, float host_calls) {
    return add(name_id(name), phase, add_op(std::move(op)), places, after, host_calls);
}

TaskId TaskGraph::add(std::string_view name, Phase phase, Op op, std::initializer_list<Place> places, std::initializer_list<TaskId> after, float host_calls) {
    return add(name, phase, std::move(op), std::span(places.begin(), places.size()), std::span(after.begin(), after.size()), host_calls);
}

void TaskGraph::reserve(std::size_t tasks, std::size_t places, std::size_t edges) {
    place_begin_.reserve(tasks + 1);
    predecessor_begin_.reserve(tasks + 1);
    op_.reserve(tasks);
    name_.reserve(tasks);
    phase_.reserve(tasks);
    host_calls_.reserve(tasks);
    places_.reserve(places);
    predecessors_.reserve(edges);
}

void TaskGraph::set_multiplicity(std::vector<int> multiplicity) {
    if (multiplicity.size() != static_cast<std::size_t>(rank_count_)) throw std::logic_error("task_graph: one multiplicity per rank");
    multiplicity_ = std::move(multiplicity);
}

}  // namespace stepcast
