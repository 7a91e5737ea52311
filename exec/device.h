// What a machine must offer so that execute() can run a graph on it: the host, as threads or MPI
// processes (host_device.h), a CUDA plugin. Each rank of this process is driven by one thread, which issues the rank's tasks in
// id order; a device may run them at once (host) or queue each on the stream of its lane (CUDA).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/graph/task_graph.h"
#include "model/records/measurement.h"

namespace stepcast {

enum class Edge : std::uint8_t { start, finish };

// Functions that take a rank are called by that rank's thread, except abort(). All may throw DeviceError; execute()
// adds rank and task.
class Device {
public:
    Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    virtual ~Device() = default;

    [[nodiscard]] virtual std::string description() const = 0;
    [[nodiscard]] virtual std::vector<std::string> versions() const = 0;
    [[nodiscard]] virtual int rank_count() const = 0;
    [[nodiscard]] virtual std::vector<int> local_ranks() const = 0;
    // The process of rank 0: the one that gets the measurement and may print and write.
    [[nodiscard]] bool reports() const;

    // Sizes every buffer before anything runs; ConfigError when the memory does not suffice. Waits for other ranks end
    // after `timeout`. Returns doubts ("fp16 runs as fp32"). The graph must outlive the run.
    virtual std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) = 0;

    // The calling thread drives `rank` from now on: pins it, fills its buffers.
    virtual void attach(int rank) = 0;
    // All ranks meet; returns the time at which this one goes on, on the clock of elapsed().
    virtual Seconds begin_step(int rank) = 0;
    // Orders `task` after `predecessor`, wherever that ran.
    virtual void wait(TaskId task, int rank, TaskId predecessor) = 0;
    // This rank's share of the task, on the rank's lanes of it.
    virtual void launch(TaskId task, const Op& op, int rank) = 0;
    // Notes when the lanes of `task` reach this point.
    virtual void record(TaskId task, int rank, Edge edge) = 0;
    // Returns when everything launched on the rank has finished.
    virtual void synchronize(int rank) = 0;
    // A recorded time, on one clock for all ranks as far as clocks can be aligned.
    [[nodiscard]] virtual Seconds elapsed(TaskId task, int rank, Edge edge) const = 0;
    // How far the recorded times of the last step may be off as a whole, against other ranks or the host.
    [[nodiscard]] virtual Seconds clock_error(int) const { return Seconds(); }
    // Thread CPU time over wall time of the last step; 1 where it says nothing about the device.
    [[nodiscard]] virtual double cpu_share(int rank) const = 0;

    // What the device noticed while it ran ("the clock was held down"); asked once, after the last step.
    virtual std::vector<std::string> doubts() { return {}; }

    // Outside the measured part, called by all ranks together: rank 0 gets everybody's values, the others none;
    // everybody gets rank 0's value.
    virtual std::vector<std::vector<double>> gather(int rank, std::vector<double> values) = 0;
    virtual double broadcast(int rank, double value) = 0;

    // Rank `failed` has given up: every wait of the other ranks ends with DeviceError.
    virtual void abort(int failed) noexcept = 0;
};

}  // namespace stepcast
