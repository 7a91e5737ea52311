// The lanes of one rank as CUDA streams, edges as events, and when each task began and ended. A
// task begins when the task before it on its lane ends, unless it had to wait for something else.
// Only then it has a start event, because each event takes a GPU about 1 us.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <vector>

#include "exec/cuda/owned.h"
#include "exec/device.h"
#include "model/base/numbers.h"

namespace stepcast {

// Called while the host waits. Throws if another rank has failed or the wait took too long.
using Watch = std::function<void()>;

class StreamTimeline {
public:
    // On the current GPU. `replay`: the second step is captured into a CUDA graph, which runs every
    // step after that.
    StreamTimeline(const TaskGraph& graph, int rank, bool replay);

    // Returns the host's time of a moment at which the GPU is idle and the step begins.
    Seconds begin_step();
    // False while a graph is replayed: tasks are then not launched one by one.
    [[nodiscard]] bool issues() const { return mode_ != Mode::replaying; }
    [[nodiscard]] bool captures() const { return mode_ == Mode::capturing; }

    // Orders a task after another task of this rank, or after `event` of another rank.
    void wait(TaskId task, TaskId predecessor, const Watch& watch);
    void wait(TaskId task, cudaEvent_t event, const Watch& watch);
    void start(TaskId task);
    void finish(TaskId task);
    // To be called after the last task: ends a capture, starts a captured step, and returns when
    // the GPU is done.
    void synchronize(const Watch& watch);
    // Ends a capture that a failure left open, so that calls which an open capture forbids may
    // follow.
    void give_up() noexcept;
    // Returns when the task has finished, for graphs that block the host at every launch.
    void await(TaskId task, const Watch& watch);

    [[nodiscard]] cudaStream_t stream(TaskId task) const {
        return streams_[lane_index(task)].get();
    }
    [[nodiscard]] std::size_t lane_index(TaskId task) const { return as_index(lanes_[task]); }
    [[nodiscard]] cudaStream_t any_stream() const { return streams_[origin_lane_].get(); }
    [[nodiscard]] cudaEvent_t finished(TaskId task) const { return finish_[task].get(); }
    [[nodiscard]] Seconds elapsed(TaskId task, Edge edge) const;
    [[nodiscard]] Seconds clock_error() const { return clock_error_; }  // of begin_step()
    // The first task that the GPU has not finished, if all are queued; graph.size() if there is
    // none.
    [[nodiscard]] TaskId first_unfinished();

private:
    enum class Mode : std::uint8_t { issuing, capturing, replaying };
    static constexpr TaskId none = static_cast<TaskId>(-1);

    static Owned<cudaEvent_t> make_event(unsigned int flags);
    [[nodiscard]] bool on_host(TaskId task) const { return graph_.on_host(task); }
    void order_after(std::size_t lane, cudaEvent_t event);
    void mark(cudaEvent_t event, cudaStream_t stream);
    void begin_capture();
    void end_capture();
    Seconds read(cudaEvent_t event) const;
    template <typename Done>
    void poll(Done done, const Watch& watch);

    const TaskGraph& graph_;
    int rank_;
    bool replay_;
    Mode mode_ = Mode::issuing;
    std::uint64_t steps_ = 0;
    // null if the rank has no task on the lane
    std::array<Owned<cudaStream_t>, lane_count> streams_;
    std::size_t origin_lane_ = 0;
    // by task: its first lane on this rank; -1: not here
    std::vector<std::int8_t> lanes_;
    std::map<TaskId, std::vector<std::size_t>> more_lanes_;  // for tasks on several lanes
    // by task; start_ only for tasks with a start event of their own
    std::vector<Owned<cudaEvent_t>> start_, finish_;
    // by task: finish_ as an edge inside a capture
    std::vector<Owned<cudaEvent_t>> captured_;
    // by task: the task whose end is its start; none: see start_
    std::vector<TaskId> began_with_;
    // by lane: the task whose end is its last entry
    std::array<TaskId, lane_count> last_{};
    std::vector<Seconds> host_start_, host_finish_;  // by task, for the host lane
    Owned<cudaEvent_t> origin_, join_;
    Seconds origin_time_, clock_error_;
    Owned<cudaGraphExec_t> step_;
    TaskId unfinished_ = 0;
};

}  // namespace stepcast
