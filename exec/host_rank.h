// One rank on the host: its buffers, its clock marks, and the ops that need no peer. How ranks are
// connected does not matter here.
#pragma once

#include <string>
#include <vector>

#include "exec/device.h"
#include "exec/host_memory.h"
#include "exec/steady_clock.h"

namespace stepcast {

class HostRank {
public:
    void prepare(const MemoryPlan& plan, std::size_t tasks);
    // Allocates and fills the buffers in the calling thread, so that they are near its core; keeps
    // those of the graph before where they are large enough.
    void attach(int rank);
    void begin_step();
    void end_step();
    void record(TaskId task, Edge edge) { marks(edge)[task] = steady_now(); }
    [[nodiscard]] Seconds begin() const { return begin_; }
    [[nodiscard]] Seconds elapsed(TaskId task, Edge edge) const {
        return edge == Edge::start ? start_[task] : finish_[task];
    }
    [[nodiscard]] double cpu_share() const { return cpu_share_; }
    [[nodiscard]] HostMemory& memory() { return memory_; }
    [[nodiscard]] Bytes kept() const { return memory_.size(); }

    // Runs Gemm, GroupedGemm, Attention, MemoryPass and HostWork; does nothing for ops that involve
    // other ranks.
    void compute(const Op& op);

private:
    std::vector<Seconds>& marks(Edge edge) { return edge == Edge::start ? start_ : finish_; }

    MemoryPlan plan_;
    HostMemory memory_;
    std::vector<Seconds> start_, finish_;
    Seconds begin_, cpu_begin_;
    double cpu_share_ = 1;
    float checksum_ = 0;  // keeps the reads of memory passes alive
};

// One line for each thing that the host does differently from the graph.
std::vector<std::string> host_doubts(const TaskGraph& graph, std::size_t ranks, std::size_t cores);
std::vector<std::string> host_versions();
// `exchanges`: what moves data between the ranks.
std::vector<std::string> host_kernels(const TaskGraph& graph, int rank,
                                      const std::string& exchanges);

}  // namespace stepcast
