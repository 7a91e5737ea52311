// The step as tasks on lanes: the one value that the simulator prices and the executor runs.
//
// Rules that both interpreters share:
// - A task occupies a set of places (rank, lane). It starts when its predecessors have finished and
//   it is first in the queue of all its places; it frees them all when it finishes. Tasks of one
//   place run in id order.
// - A collective is one task with a place on every participant, so a straggler delays all.
// - Edges lead to earlier ids only, so the graph is acyclic by construction; id order is issue
//   order, and every rank issues its collectives in one global order.
// - The host is the lane `host`. Issuing a task occupies the host of each of its ranks for the cost
//   of its `host_calls`; then the task can start. A task on the host lane occupies the host itself;
//   one with device predecessors is a synchronisation. With `launch_blocking` the host waits for
//   each task that it issued. No task occupies the host and a device lane at once.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/base/names.h"
#include "model/base/numbers.h"
#include "model/graph/group.h"
#include "model/graph/op.h"
#include "model/graph/task_label.h"

namespace stepcast {

using TaskId = std::uint32_t;
inline constexpr TaskId no_task = ~TaskId{0};
using TasksByRank = std::vector<TaskId>;  // one per simulated rank; no_task where there is none

// `collective` is for what layers wait for (tensor, context and expert parallelism), `data` for
// gradients and parameters, `copy` for what goes to the host's memory and comes back beside them.
NAMED_ENUM(Lane, "a lane", compute, collective, data, send_up, receive_up, send_down, receive_down,
           host, copy);
inline constexpr int lane_count = 9;

// `between` is part of neither forward nor backward: a loss outside the model's own forward, the
// next batch.
NAMED_ENUM(Phase, "a phase", forward, between, backward, gradient_sync, optimizer);
inline constexpr int phase_count = 5;

// A lane of a rank, packed as index = rank * lane_count + lane.
struct Place {
    std::uint32_t index = 0;
    Place() = default;
    Place(int rank, Lane lane)
        : index(static_cast<std::uint32_t>(rank * lane_count + as_int(lane))) {}
    [[nodiscard]] int rank() const { return as_int(index) / lane_count; }
    [[nodiscard]] Lane lane() const { return static_cast<Lane>(as_int(index) % lane_count); }
    friend bool operator==(const Place&, const Place&) = default;
};

// Limits on the size of a step. A task takes about 200 bytes, so the largest step needs 10 GB.
inline constexpr std::size_t most_tasks = 50'000'000;
// places and dependencies of all tasks together
inline constexpr std::size_t most_graph_entries = 1'000'000'000;

using OpId = std::uint32_t;
using NameId = std::uint32_t;

// What a task is. `host_calls` is the number of host calls that issue it on each of its ranks (0
// for tasks on the host lane). `group` names the participants of a collective if a folded graph
// shows only some of them.
struct NewTask {
    NameId name = 0;
    Phase phase = Phase::forward;
    OpId op = 0;
    float host_calls = 1;
    GroupId group = 0;
};

class TaskGraph {
public:
    explicit TaskGraph(int rank_count = 1, bool launch_blocking = false);
    // Out of line, else every file that copies or drops one compiles that of all ops.
    TaskGraph(const TaskGraph&);
    TaskGraph(TaskGraph&&) noexcept;
    TaskGraph& operator=(const TaskGraph&);
    TaskGraph& operator=(TaskGraph&&) noexcept;
    ~TaskGraph();

    // Names and ops are stored apart from the per-task arrays. Equal names share an id; ops share
    // one if the caller reuses the id.
    NameId name_id(std::string_view name);
    OpId add_op(Op op);

    // Equal groups share an id. Group 0 means the ranks of the task's own places.
    GroupId add_group(const Group& group);

    // A task of its own name and op, as add() takes it.
    NewTask task_of(std::string_view name, Phase phase, Op op, float host_calls = 1);

    // Appends a task. Every id in `after` must be smaller than the returned one and no place may
    // occur twice, else std::logic_error.
    TaskId add(const NewTask& task, std::span<const Place> places, std::span<const TaskId> after);
    TaskId add(const NewTask& task, std::initializer_list<Place> places,
               std::initializer_list<TaskId> after);
    // The same for one that its host issues by one call.
    TaskId add(std::string_view name, Phase phase, Op op, std::span<const Place> places,
               std::span<const TaskId> after);
    TaskId add(std::string_view name, Phase phase, Op op, std::initializer_list<Place> places,
               std::initializer_list<TaskId> after);

    // What the tasks that are added from now on are written for.
    void set_label(const TaskLabel& label);

    [[nodiscard]] std::size_t size() const { return op_.size(); }
    [[nodiscard]] int rank_count() const { return rank_count_; }
    [[nodiscard]] int place_count() const { return rank_count_ * lane_count; }
    [[nodiscard]] bool launch_blocking() const { return launch_blocking_; }
    [[nodiscard]] bool has_host_tasks() const { return has_host_tasks_; }
    // How many real ranks each simulated rank represents (folding); all 1 unless the builder
    // folded.
    [[nodiscard]] const std::vector<int>& multiplicity() const { return multiplicity_; }
    void set_multiplicity(std::vector<int> multiplicity);

    [[nodiscard]] std::string_view name(TaskId t) const { return names_[name_[t]]; }
    [[nodiscard]] Phase phase(TaskId t) const { return phase_[t]; }
    [[nodiscard]] OpId op_id(TaskId t) const { return op_[t]; }
    [[nodiscard]] const Op& op(TaskId t) const { return ops_[op_[t]]; }
    [[nodiscard]] std::span<const Op> ops() const { return ops_; }
    [[nodiscard]] bool has_labels() const { return !labels_.empty(); }
    [[nodiscard]] const TaskLabel& label(TaskId t) const;
    [[nodiscard]] GroupId group_id(TaskId t) const { return group_[t]; }
    [[nodiscard]] const Group& group(GroupId id) const { return groups_[id]; }
    [[nodiscard]] float host_calls(TaskId t) const { return host_calls_[t]; }
    [[nodiscard]] std::span<const Place> places(TaskId t) const {
        return {places_.data() + place_begin_[t], places_.data() + place_begin_[t + 1]};
    }
    // Index of the task's first place in the concatenated places of all tasks; for t = size() the
    // total number of places.
    [[nodiscard]] std::uint32_t place_offset(TaskId t) const { return place_begin_[t]; }
    [[nodiscard]] bool on_host(TaskId t) const {
        return places_[place_begin_[t]].lane() == Lane::host;
    }
    [[nodiscard]] std::span<const TaskId> predecessors(TaskId t) const {
        return {predecessors_.data() + predecessor_begin_[t],
                predecessors_.data() + predecessor_begin_[t + 1]};
    }

    friend bool operator==(const TaskGraph&, const TaskGraph&) = default;

private:
    struct NameHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view name) const {
            return std::hash<std::string_view>{}(name);
        }
    };
    // The tasks from `first` on, up to the next entry.
    struct LabelledTasks {
        TaskId first = 0;
        TaskLabel label;
        friend bool operator==(const LabelledTasks&, const LabelledTasks&) = default;
    };
    void check_task(const NewTask& task, std::span<const Place> places,
                    std::span<const TaskId> after) const;

    int rank_count_;
    bool launch_blocking_;
    bool has_host_tasks_ = false;
    // CSR offsets, one past the last task
    std::vector<std::uint32_t> place_begin_{0}, predecessor_begin_{0};
    std::vector<Place> places_;
    std::vector<TaskId> predecessors_;
    std::vector<OpId> op_;
    std::vector<NameId> name_;
    std::vector<float> host_calls_;
    std::vector<Phase> phase_;
    std::vector<GroupId> group_;
    std::vector<Group> groups_{Group{}};
    std::vector<Op> ops_;
    std::vector<LabelledTasks> labels_;
    std::vector<std::string> names_;
    std::unordered_map<std::string, NameId, NameHash, std::equal_to<>> name_ids_;
    std::vector<int> multiplicity_;
};

}  // namespace stepcast
