// One group of ranks in NCCL. Every communicator is non-blocking and polled, so that a missing rank
// ends in a DeviceError, not in a hang. Do not ask NCCL for its own estimates:
// ncclGroupSimulateEnd() on a non-blocking communicator launches the collective (NCCL 2.28.9).
#pragma once

#include <nccl.h>

#include <vector>

#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/timeline.h"

namespace stepcast {

class Communicator {
public:
    Communicator() = default;
    Communicator(const ncclUniqueId& id, int ranks, int rank, const Watch& watch);
    Communicator(Communicator&& other) noexcept;
    Communicator& operator=(Communicator&& other) noexcept;
    ~Communicator();

    // A communicator of `members`, ranks of this one, in their order; empty if `rank` is no member.
    // All ranks call it together.
    Communicator split(const std::vector<int>& members, int rank, const Watch& watch);
    [[nodiscard]] bool empty() const { return comm_ == nullptr; }
    [[nodiscard]] std::size_t index() const { return index_; }  // of this rank in the communicator
    [[nodiscard]] std::size_t size() const { return size_; }

    // Queues this rank's share of `op`, as communicate() runs it between threads
    // (exec/rank_group.h). `at` has the sizes of need_of().
    void run(const Op& op, const CudaOperands& at, cudaStream_t stream, const Watch& watch);

    void check_health() const;  // throws if a peer or the network has failed
    void abort() noexcept;      // ends what runs; afterwards the communicator is empty

private:
    ncclComm_t comm_ = nullptr;
    std::size_t index_ = 0, size_ = 0;
};

ncclUniqueId make_unique_id();

}  // namespace stepcast
