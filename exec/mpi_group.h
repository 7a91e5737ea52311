// Ranks as MPI processes that take part in something together, and its collectives on buffers of the caller. Every call
// is non-blocking inside and polled, so that a missing rank ends in a DeviceError, not in a hang. Included by
// exec/mpi_*.cpp only.
#pragma once

#include <mpi.h>

#include <span>
#include <vector>

#include "exec/rank_group.h"

namespace stepcast {

struct MpiGroup {
    MPI_Comm comm = MPI_COMM_NULL;
    std::size_t index = 0;   // of this process
    std::vector<int> ranks;  // in MPI_COMM_WORLD
    Patience patience;
    const FailedRank* failed = nullptr;
};

void check(int code);              // DeviceError with MPI's text
int mpi_count(std::size_t count);  // ConfigError beyond what an int holds

// Waits for `request`; after the timeout DeviceError naming those of `waits_for` that are not this process.
void finish(const MpiGroup& group, MPI_Request request, const std::vector<int>& waits_for);

void meet(const MpiGroup& group);
void all_reduce(const MpiGroup& group, std::span<float> input, std::span<float> output);
void all_gather(const MpiGroup& group, std::span<float> input, std::span<float> output);  // parts: footprint.h
void reduce_scatter(const MpiGroup& group, std::span<float> input, std::span<float> output);
void broadcast(const MpiGroup& group, std::size_t root, std::span<float> values);
void reduce(const MpiGroup& group, std::size_t root, std::span<float> input, std::span<float> output);
// `to` and `from`: floats per participant, one after another in the buffers.
void all_to_all(const MpiGroup& group, const std::vector<std::size_t>& to, const std::vector<std::size_t>& from,
                std::span<float> input, std::span<float> output);
void send_receive(const MpiGroup& group, int messages, std::span<float> values);  // from participant 0 to 1

}  // namespace stepcast
