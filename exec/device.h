// What a machine must offer so that execute() can run a graph on it: the host with threads or MPI
// processes (host_device.h), or a CUDA plugin. One thread drives each rank of this process and
// issues the rank's tasks in id order. A device may run them at once (host) or queue each on the
// stream of its lane (CUDA).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/graph/task_graph.h"
#include "model/records/measurement.h"

namespace stepcast {

enum class Edge : std::uint8_t { start, finish };

// The rank's thread calls the functions that take a rank, except abort(). All may throw
// DeviceError; execute() adds rank and task.
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
    // Whether this is the process of rank 0, which gets the measurement and may print and write.
    [[nodiscard]] bool reports() const;

    // Sizes every buffer before anything runs. Throws ConfigError if the memory does not suffice.
    // Waits for other ranks end after `timeout`. Returns doubts ("fp16 runs as fp32"). The graph
    // must outlive the run.
    virtual std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) = 0;

    // From now on the calling thread drives `rank`: pins the thread and fills the rank's buffers.
    virtual void attach(int rank) = 0;
    // All ranks meet. Returns when this rank goes on, on the clock of elapsed().
    virtual Seconds begin_step(int rank) = 0;
    // Orders `task` after `predecessor`, on whichever rank that ran.
    virtual void wait(TaskId task, int rank, TaskId predecessor) = 0;
    // Runs this rank's share of the task on the lanes that the task has on this rank.
    virtual void launch(TaskId task, const Op& op, int rank) = 0;
    // Records when the lanes of `task` reach this point.
    virtual void record(TaskId task, int rank, Edge edge) = 0;
    // Returns when everything launched on the rank has finished.
    virtual void synchronize(int rank) = 0;
    // A recorded time, on a clock that is common to all ranks as far as clocks can be aligned.
    [[nodiscard]] virtual Seconds elapsed(TaskId task, int rank, Edge edge) const = 0;
    // By how much all recorded times of the last step may be off against other ranks or the host.
    [[nodiscard]] virtual Seconds clock_error(int) const { return Seconds(); }
    // Thread CPU time over wall time of the last step; 1 if that says nothing about the device.
    [[nodiscard]] virtual double cpu_share(int rank) const = 0;

    // What ran each kind of task of this process's first rank (exec/kernel_table.h). Called once,
    // after the last step.
    [[nodiscard]] virtual std::vector<std::string> kernels() const = 0;
    // What the device noticed during the run ("the clock was held down"). Called once, after the
    // last step.
    virtual std::vector<std::string> doubts() { return {}; }

    // Outside the measured part, called by all ranks together. gather(): rank 0 gets the values of
    // all ranks, the others get none. broadcast(): every rank gets rank 0's value.
    virtual std::vector<std::vector<double>> gather(int rank, std::vector<double> values) = 0;
    virtual double broadcast(int rank, double value) = 0;

    // Rank `failed` has given up. Every wait of the other ranks then ends with DeviceError.
    virtual void abort(int failed) noexcept = 0;
};

}  // namespace stepcast
