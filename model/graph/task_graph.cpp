#include "model/graph/task_graph.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {

TaskGraph::TaskGraph(const TaskGraph&) = default;
TaskGraph::TaskGraph(TaskGraph&&) noexcept = default;
TaskGraph& TaskGraph::operator=(const TaskGraph&) = default;
TaskGraph& TaskGraph::operator=(TaskGraph&&) noexcept = default;
TaskGraph::~TaskGraph() = default;

TaskGraph::TaskGraph(int rank_count, bool launch_blocking)
    : rank_count_(rank_count),
      launch_blocking_(launch_blocking),
      multiplicity_(as_index(rank_count), 1) {}

NameId TaskGraph::name_id(std::string_view name) {
    if (const auto known = value_in(name_ids_, name)) return *known;
    const auto id = static_cast<NameId>(names_.size());
    names_.emplace_back(name);
    name_ids_.emplace(name, id);
    return id;
}

OpId TaskGraph::add_op(Op op) {
    ops_.push_back(std::move(op));
    return static_cast<OpId>(ops_.size() - 1);
}

GroupId TaskGraph::add_group(const Group& group) {
    const auto found = std::find(groups_.begin() + 1, groups_.end(), group);
    if (found != groups_.end()) return static_cast<GroupId>(found - groups_.begin());
    groups_.push_back(group);
    return static_cast<GroupId>(groups_.size() - 1);
}

namespace {

bool has_repeated(std::span<const Place> places) {
    constexpr std::size_t few = 8;
    if (places.size() <= few) {
        for (auto place = places.begin(); place != places.end(); ++place)
            if (std::find(places.begin(), place, *place) != place) return true;
        return false;
    }
    std::vector<Place> sorted(places.begin(), places.end());
    std::ranges::sort(sorted, {}, &Place::index);
    return std::ranges::adjacent_find(sorted) != sorted.end();
}

[[noreturn]] void refuse_task(std::size_t task, const std::string& what) {
    throw std::logic_error("task_graph: task " + std::to_string(task) + " " + what);
}

}  // namespace

void TaskGraph::check_task(const NewTask& added, std::span<const Place> places,
                           std::span<const TaskId> after) const {
    const std::size_t task = size();
    if (added.name >= names_.size())
        refuse_task(task, "has name id " + std::to_string(added.name) + ", which no name has");
    if (added.op >= ops_.size())
        refuse_task(task, "has op id " + std::to_string(added.op) + ", which no op has");
    if (places.empty()) refuse_task(task, "has no place");
    const auto limit = static_cast<std::uint32_t>(place_count());
    const bool on_host_lane = places.front().lane() == Lane::host;
    for (const Place& place : places) {
        if (place.index >= limit)
            refuse_task(task, "is on rank " + std::to_string(place.rank()) + " of " +
                                  std::to_string(rank_count_));
        if ((place.lane() == Lane::host) != on_host_lane)
            refuse_task(task, "is on the host and on a device lane at once");
    }
    if (has_repeated(places)) refuse_task(task, "names one place twice");
    for (const TaskId earlier : after)
        if (earlier >= task)
            refuse_task(task,
                        "comes after task " + std::to_string(earlier) + ", which is not earlier");
}

TaskId TaskGraph::add(const NewTask& added, std::span<const Place> places,
                      std::span<const TaskId> after) {
    check_task(added, places, after);
    if (size() >= most_tasks || places_.size() + predecessors_.size() >= most_graph_entries)
        throw ConfigError(
            fmt::format("the step has more than {} tasks with {} places and dependencies; expected "
                        "fewer layers, "
                        "micro-batches or ranks",
                        size(), places_.size() + predecessors_.size()));
    if (added.group >= groups_.size())
        refuse_task(size(), "has group id " + std::to_string(added.group) + ", which no group has");
    const auto task = static_cast<TaskId>(size());
    for (const Place& place : places) places_.push_back(place);
    for (const TaskId earlier : after) predecessors_.push_back(earlier);
    place_begin_.push_back(static_cast<std::uint32_t>(places_.size()));
    predecessor_begin_.push_back(static_cast<std::uint32_t>(predecessors_.size()));
    op_.push_back(added.op);
    name_.push_back(added.name);
    phase_.push_back(added.phase);
    group_.push_back(added.group);
    host_calls_.push_back(added.host_calls);
    has_host_tasks_ = has_host_tasks_ || on_host(task);
    return task;
}

NewTask TaskGraph::task_of(std::string_view name, Phase phase, Op op, float host_calls) {
    return {name_id(name), phase, add_op(std::move(op)), host_calls, 0};
}

TaskId TaskGraph::add(const NewTask& task, std::initializer_list<Place> places,
                      std::initializer_list<TaskId> after) {
    return add(task, std::span(places.begin(), places.size()),
               std::span(after.begin(), after.size()));
}

TaskId TaskGraph::add(std::string_view name, Phase phase, Op op, std::span<const Place> places,
                      std::span<const TaskId> after) {
    return add(task_of(name, phase, std::move(op)), places, after);
}

TaskId TaskGraph::add(std::string_view name, Phase phase, Op op,
                      std::initializer_list<Place> places, std::initializer_list<TaskId> after) {
    return add(task_of(name, phase, std::move(op)), places, after);
}

void TaskGraph::set_label(const TaskLabel& label) {
    const auto first = static_cast<TaskId>(size());
    while (!labels_.empty() && labels_.back().first == first) labels_.pop_back();
    if (label != (labels_.empty() ? TaskLabel{} : labels_.back().label))
        labels_.push_back({first, label});
}

const TaskLabel& TaskGraph::label(TaskId t) const {
    static constexpr TaskLabel none;
    const auto after = std::ranges::upper_bound(labels_, t, {}, &LabelledTasks::first);
    return after == labels_.begin() ? none : std::prev(after)->label;
}

void TaskGraph::set_multiplicity(std::vector<int> multiplicity) {
    if (multiplicity.size() != as_index(rank_count_))
        throw std::logic_error("task_graph: " + std::to_string(multiplicity.size()) +
                               " multiplicities for " + std::to_string(rank_count_) + " ranks");
    multiplicity_ = std::move(multiplicity);
}

}  // namespace stepcast
