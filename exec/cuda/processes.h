// What the ranks of a run tell each other where each is a process: samples, clocks and when a step
// begins, over NCCL, outside the measured part. All processes make the same calls in the same
// order.
#pragma once

#include <string>
#include <vector>

#include "exec/cuda/communicator.h"

namespace stepcast {

class CudaProcesses {
public:
    // `world`: the communicator of all ranks, on this GPU; must outlive this.
    CudaProcesses(Communicator& world, int gpu, Seconds timeout);

    void set_timeout(Seconds timeout) { timeout_ = timeout; }
    void meet();
    std::vector<std::string> all_gather(const std::string& mine);  // by rank
    // What to add to this process's steady clock to get rank 0's: the middle one of the differences
    // after several meetings, which end on all ranks at the same moment.
    Seconds clock_offset();

private:
    [[nodiscard]] Watch watch() const;
    void run(const Op& op);
    std::string exchange(std::string mine);

    Communicator& world_;
    int gpu_;
    Seconds timeout_;
    Owned<cudaStream_t> stream_;
    CudaBlock own_, all_;
};

}  // namespace stepcast
