#include "exec/cuda/timeline.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "exec/cuda/check.h"
#include "exec/steady_clock.h"
#include "model/base/numbers.h"

namespace stepcast {

Owned<cudaEvent_t> StreamTimeline::make_event(unsigned int flags) {
    Owned<cudaEvent_t> event;
    check(cudaEventCreateWithFlags(Out(event), flags));
    return event;
}

StreamTimeline::StreamTimeline(const TaskGraph& graph, int rank, bool replay)
    : graph_(graph),
      rank_(rank),
      replay_(replay),
      lanes_(graph.size(), -1),
      start_(graph.size()),
      finish_(graph.size()),
      captured_(replay ? graph.size() : 0),
      began_with_(graph.size(), none),
      host_start_(graph.size()),
      host_finish_(graph.size()),
      origin_(make_event(cudaEventDefault)),
      join_(make_event(cudaEventDisableTiming)) {
    const auto open = [&](std::size_t lane) {
        if (streams_[lane]) return;
        check(cudaStreamCreateWithFlags(Out(streams_[lane]), cudaStreamNonBlocking));
        origin_lane_ = std::min(origin_lane_, lane);
    };
    origin_lane_ = lane_count - 1;
    for (TaskId task = 0; task < graph.size(); ++task) {
        for (const Place& place : graph.places(task)) {
            if (place.rank() != rank) continue;
            const auto lane = as_index(place.lane());
            if (lanes_[task] < 0)
                lanes_[task] = static_cast<std::int8_t>(lane);
            else
                more_lanes_[task].push_back(lane);
            if (!graph.on_host(task)) open(lane);
        }
        if (lanes_[task] < 0 || on_host(task)) continue;
        finish_[task] = make_event(cudaEventDefault);
        if (replay) captured_[task] = make_event(cudaEventDisableTiming);
    }
    // a rank without device tasks still needs a stream for its clock
    if (!streams_[origin_lane_]) open(0);
}

// The GPU is idle, so the event happens between the two reads of the clock. The second attempt
// finds everything loaded. If the reads are far apart, something came between (another process on
// this GPU), and it tries again.
Seconds StreamTimeline::begin_step() {
    constexpr int fewest = 2, most = 20;
    constexpr Seconds close(1e-4);
    for (int attempt = 1; attempt <= most; ++attempt) {
        const Seconds before = steady_now();
        check(cudaEventRecord(origin_.get(), any_stream()));
        check(cudaEventSynchronize(origin_.get()));
        const Seconds after = steady_now();
        origin_time_ = 0.5 * (before + after);
        clock_error_ = 0.5 * (after - before);
        if (attempt >= fewest && after - before < close) break;
    }
    last_.fill(none);
    unfinished_ = 0;
    if (step_)
        mode_ = Mode::replaying;
    else if (replay_ && steps_ == 1)
        begin_capture();
    ++steps_;
    return origin_time_;
}

void StreamTimeline::begin_capture() {
    mode_ = Mode::capturing;
    check(cudaStreamBeginCapture(any_stream(), cudaStreamCaptureModeThreadLocal));
    check(cudaEventRecord(join_.get(), any_stream()));
    for (const Owned<cudaStream_t>& stream : streams_)
        if (stream && stream.get() != any_stream())
            check(cudaStreamWaitEvent(stream.get(), join_.get(), 0));
}

void StreamTimeline::end_capture() {
    for (const Owned<cudaStream_t>& stream : streams_) {
        if (!stream || stream.get() == any_stream()) continue;
        check(cudaEventRecord(join_.get(), stream.get()));
        check(cudaStreamWaitEvent(any_stream(), join_.get(), 0));
    }
    Owned<cudaGraph_t> graph;
    check(cudaStreamEndCapture(any_stream(), Out(graph)));
    check(cudaGraphInstantiate(Out(step_), graph.get(), 0));
    mode_ = Mode::replaying;
}

void StreamTimeline::give_up() noexcept {
    if (!captures()) return;
    Owned<cudaGraph_t> graph;
    // fails if lanes are not joined, but ends the capture
    cudaStreamEndCapture(any_stream(), Out(graph));
    cudaGetLastError();
    mode_ = Mode::issuing;
}

void StreamTimeline::order_after(std::size_t lane, cudaEvent_t event) {
    check(cudaStreamWaitEvent(streams_[lane].get(), event, 0));
    last_[lane] = none;
}

// Inside a capture an event that is read later must be marked as external; otherwise it is only an
// edge.
void StreamTimeline::mark(cudaEvent_t event, cudaStream_t stream) {
    check(cudaEventRecordWithFlags(event, stream,
                                   captures() ? cudaEventRecordExternal : cudaEventRecordDefault));
}

void StreamTimeline::wait(TaskId task, TaskId predecessor, const Watch& watch) {
    if (on_host(predecessor)) {  // has finished already, but perhaps after the lane's last end
        if (!on_host(task)) last_[lane_index(task)] = none;
        return;
    }
    if (on_host(task)) return await(predecessor, watch);
    const std::span<const Place> before = graph_.places(predecessor);
    const auto shares = [&](std::size_t lane) {
        return std::any_of(before.begin(), before.end(), [&](const Place& place) {
            return place.rank() == rank_ && as_index(place.lane()) == lane;
        });
    };
    const cudaEvent_t end = captures() ? captured_[predecessor].get() : finish_[predecessor].get();
    for (const Place& place : graph_.places(task))
        if (const auto lane = as_index(place.lane()); place.rank() == rank_ && !shares(lane))
            order_after(lane, end);
}

void StreamTimeline::wait(TaskId task, cudaEvent_t event, const Watch& watch) {
    if (on_host(task)) return poll([&] { return cudaEventQuery(event); }, watch);
    order_after(lane_index(task), event);
    if (const auto more = more_lanes_.find(task); more != more_lanes_.end())
        for (const std::size_t lane : more->second) order_after(lane, event);
}

void StreamTimeline::start(TaskId task) {
    if (on_host(task)) {
        host_start_[task] = steady_now();
        return;
    }
    const std::size_t lane = lane_index(task);
    if (const auto more = more_lanes_.find(task); more != more_lanes_.end())
        for (const std::size_t other : more->second) {
            check(cudaEventRecord(join_.get(), streams_[other].get()));
            order_after(lane, join_.get());
        }
    began_with_[task] = last_[lane];
    if (last_[lane] != none) return;
    if (!start_[task]) start_[task] = make_event(cudaEventDefault);
    mark(start_[task].get(), streams_[lane].get());
}

void StreamTimeline::finish(TaskId task) {
    if (on_host(task)) {
        host_finish_[task] = steady_now();
        return;
    }
    const std::size_t lane = lane_index(task);
    mark(finish_[task].get(), streams_[lane].get());
    if (captures()) check(cudaEventRecord(captured_[task].get(), streams_[lane].get()));
    last_[lane] = task;
    if (const auto more = more_lanes_.find(task); more != more_lanes_.end())
        for (const std::size_t other : more->second) {
            order_after(other, captures() ? captured_[task].get() : finish_[task].get());
            last_[other] = task;
        }
}

namespace {

// Whether `code` says that the GPU still works. The runtime stores that answer as its last error,
// so it is cleared here; otherwise the next kernel's launch would report it as its own.
bool is_pending(cudaError_t code) {
    if (code != cudaErrorNotReady) return false;
    cudaGetLastError();
    return true;
}

}  // namespace

// Calls `done`, which returns a status, until the GPU is ready.
template <typename Done>
void StreamTimeline::poll(Done done, const Watch& watch) {
    constexpr auto nap = std::chrono::microseconds(20);
    for (;;) {
        const cudaError_t code = done();
        if (!is_pending(code)) return check(code);
        watch();
        std::this_thread::sleep_for(nap);
    }
}

void StreamTimeline::await(TaskId task, const Watch& watch) {
    if (mode_ != Mode::issuing || on_host(task)) return;
    poll([&] { return cudaEventQuery(finish_[task].get()); }, watch);
}

void StreamTimeline::synchronize(const Watch& watch) {
    if (captures()) end_capture();
    if (mode_ == Mode::replaying) check(cudaGraphLaunch(step_.get(), any_stream()));
    for (const Owned<cudaStream_t>& stream : streams_)
        if (stream) poll([&] { return cudaStreamQuery(stream.get()); }, watch);
}

TaskId StreamTimeline::first_unfinished() {
    for (; unfinished_ < graph_.size(); ++unfinished_) {
        if (!finish_[unfinished_]) continue;
        const cudaError_t code = cudaEventQuery(finish_[unfinished_].get());
        if (is_pending(code) || code != cudaSuccess) break;
    }
    return unfinished_;
}

Seconds StreamTimeline::read(cudaEvent_t event) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, origin_.get(), event));
    return origin_time_ + Seconds(1e-3 * static_cast<double>(milliseconds));
}

// A replayed step has no host lane: its tasks ran at the capture. They are shown at the start of
// the step.
Seconds StreamTimeline::elapsed(TaskId task, Edge edge) const {
    if (on_host(task)) {
        if (mode_ == Mode::replaying) return origin_time_;
        return edge == Edge::start ? host_start_[task] : host_finish_[task];
    }
    if (edge == Edge::finish) return read(finish_[task].get());
    return began_with_[task] == none ? read(start_[task].get())
                                     : read(finish_[began_with_[task]].get());
}

}  // namespace stepcast
