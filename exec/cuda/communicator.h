// One group of ranks as NCCL sees it. Every communicator is non-blocking inside and polled, so that a missing rank ends in
// a DeviceError, not in a hang. Nobody asks it for NCCL's own estimates: on a non-blocking communicator
// ncclGroupSimulateEnd() launches the collective for real (NCCL 2.28.9).
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

    // One for `members` of this one's ranks, in their order; all ranks call it together, and `rank` gets an empty one when it is
    // none of them.
    Communicator split(const std::vector<int>& members, int rank, const Watch& watch);
    [[nodiscard]] bool empty() const { return comm_ == nullptr; }
    [[nodiscard]] std::size_t index() const { return index_; }  // of this rank in it
    [[nodiscard]] std::size_t size() const { return size_; }

    // This rank's share of `op`, as between threads (exec/rank_group.h), on operands of the sizes that need_of() says;
    // returns once it is queued.
    void run(const Op& op, const CudaOperands& at, cudaStream_t stream, const Watch& watch);

    void check_health() const;  // throws when a peer or the network failed
    void abort() noexcept;      // ends what runs; the communicator is empty afterwards

private:
    ncclComm_t comm_ = nullptr;
    std::size_t index_ = 0, size_ = 0;
};

ncclUniqueId make_unique_id();

}  // namespace stepcast
