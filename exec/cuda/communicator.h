// One group of ranks as NCCL sees it. Every communicator is non-blocking inside and polled, so that a missing rank ends in
// a DeviceError, not in a hang. Nobody asks it for NCCL's own estimates: on a non-blocking communicator
// ncclGroupSimulateEnd() launches the collective for real (NCCL 2.28.9).
#pragma once

#include <nccl.h>

#include <span>

#include "exec/cuda/timeline.h"

namespace stepcast {

class Communicator {
public:
    Communicator() = default;
    Communicator(const ncclUniqueId& id, int ranks, int rank, const Watch& watch);
    Communicator(Communicator&& other) noexcept;
    Communicator& operator=(Communicator&& other) noexcept;
    ~Communicator();

    // All ranks call it together; a rank with a negative color gets an empty one.
    Communicator split(int color, int key, const Watch& watch);
    [[nodiscard]] bool empty() const { return comm_ == nullptr; }

    // Counts are fp32 elements but for bytes where they say so; buffers lie on the GPU, calls return once queued.
    void all_reduce(const void* input, void* output, std::size_t count, cudaStream_t stream, const Watch& watch);
    void all_gather(const void* input, void* output, std::size_t share, cudaStream_t stream, const Watch& watch);
    void reduce_scatter(const void* input, void* output, std::size_t share, cudaStream_t stream, const Watch& watch);
    void broadcast(const void* input, void* output, std::size_t count, int root, cudaStream_t stream,
                   const Watch& watch);
    void reduce(const void* input, void* output, std::size_t count, int root, cudaStream_t stream, const Watch& watch);
    // Bytes for and from each participant, one after another in the buffers: grouped sends and receives.
    void all_to_all(const void* input, std::span<const std::size_t> to, void* output, std::span<const std::size_t> from,
                    cudaStream_t stream, const Watch& watch);
    void send(const void* input, std::size_t bytes, int peer, cudaStream_t stream, const Watch& watch);
    void receive(void* output, std::size_t bytes, int peer, cudaStream_t stream, const Watch& watch);

    void check_health() const;  // throws when a peer or the network failed
    void abort() noexcept;      // ends what runs; the communicator is empty afterwards

private:
    void settle(ncclResult_t result, const Watch& watch) const;

    ncclComm_t comm_ = nullptr;
};

ncclUniqueId make_unique_id();

}  // namespace stepcast
