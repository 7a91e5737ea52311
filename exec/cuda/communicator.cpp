#include "exec/cuda/communicator.h"

#include <thread>
#include <utility>

#include "exec/cuda/check.h"
#include "model/errors.h"

namespace stepcast {

ncclUniqueId make_unique_id() {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id));
    return id;
}

namespace {

ncclConfig_t polled() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}

[[noreturn]] void refuse(ncclResult_t code, ncclComm_t comm) {
    const char* last = ncclGetLastError(comm);
    throw DeviceError(std::string("NCCL: ") + ncclGetErrorString(code) +
                      (last != nullptr && *last != '\0' ? std::string(" (") + last + ")" : std::string()));
}

// Until the communicator has done what it was asked.
void wait_for(ncclComm_t comm, ncclResult_t result, const Watch& watch) {
    for (int looks = 0; result == ncclInProgress || result == ncclSuccess; ++looks) {
        ncclResult_t state = ncclSuccess;
        result = ncclCommGetAsyncError(comm, &state);
        if (result != ncclSuccess) break;
        if (state == ncclSuccess) return;
        result = state;
        constexpr int quick = 1000;
        if (looks > quick) {
            watch();
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
    }
    refuse(result, comm);
}

}  // namespace

Communicator::Communicator(const ncclUniqueId& id, int ranks, int rank, const Watch& watch) {
    ncclConfig_t config = polled();
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, ranks, id, rank, &config);
    try {
        if (comm_ == nullptr) refuse(result, nullptr);
        wait_for(comm_, result, watch);
    } catch (...) {
        abort();
        throw;
    }
}

Communicator::Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
Communicator& Communicator::operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
}

// Everything has been synchronised when a run ends well; after a failure abort() came first.
Communicator::~Communicator() {
    if (comm_ == nullptr) return;
    ncclResult_t state = ncclCommFinalize(comm_);
    constexpr int most_looks = 20000;  // of 50 us: a second
    for (int look = 0; state == ncclInProgress && look < most_looks; ++look) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess) break;
    }
    if (state == ncclSuccess)
        ncclCommDestroy(comm_);
    else
        ncclCommAbort(comm_);
}

Communicator Communicator::split(int color, int key, const Watch& watch) {
    Communicator made;
    ncclConfig_t config = polled();
    const ncclResult_t result = ncclCommSplit(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &made.comm_, &config);
    try {
        wait_for(comm_, result, watch);
        if (made.comm_ != nullptr) wait_for(made.comm_, ncclSuccess, watch);
    } catch (...) {
        made.abort();
        throw;
    }
    return made;
}

void Communicator::settle(ncclResult_t result, const Watch& watch) const { wait_for(comm_, result, watch); }

void Communicator::all_reduce(const void* input, void* output, std::size_t count, cudaStream_t stream,
                              const Watch& watch) {
    settle(ncclAllReduce(input, output, count, ncclFloat32, ncclSum, comm_, stream), watch);
}

void Communicator::all_gather(const void* input, void* output, std::size_t share, cudaStream_t stream,
                              const Watch& watch) {
    settle(ncclAllGather(input, output, share, ncclFloat32, comm_, stream), watch);
}

void Communicator::reduce_scatter(const void* input, void* output, std::size_t share, cudaStream_t stream,
                                  const Watch& watch) {
    settle(ncclReduceScatter(input, output, share, ncclFloat32, ncclSum, comm_, stream), watch);
}

void Communicator::broadcast(const void* input, void* output, std::size_t count, int root, cudaStream_t stream,
                             const Watch& watch) {
    settle(ncclBroadcast(input, output, count, ncclFloat32, root, comm_, stream), watch);
}

void Communicator::reduce(const void* input, void* output, std::size_t count, int root, cudaStream_t stream,
                          const Watch& watch) {
    settle(ncclReduce(input, output, count, ncclFloat32, ncclSum, root, comm_, stream), watch);
}

namespace {

// Inside a group a call only queues; ncclInProgress is an answer of the group's end.
void queue(ncclResult_t result, ncclComm_t comm) {
    if (result != ncclSuccess && result != ncclInProgress) {
        ncclGroupEnd();
        refuse(result, comm);
    }
}

}  // namespace

void Communicator::all_to_all(const void* input, std::span<const std::size_t> to, void* output,
                              std::span<const std::size_t> from, cudaStream_t stream, const Watch& watch) {
    const auto* source = static_cast<const char*>(input);
    auto* target = static_cast<char*>(output);
    check(ncclGroupStart());
    for (std::size_t peer = 0; peer < to.size(); ++peer) {
        if (to[peer] > 0) queue(ncclSend(source, to[peer], ncclInt8, static_cast<int>(peer), comm_, stream), comm_);
        if (from[peer] > 0) queue(ncclRecv(target, from[peer], ncclInt8, static_cast<int>(peer), comm_, stream), comm_);
        source += to[peer];
        target += from[peer];
    }
    settle(ncclGroupEnd(), watch);
}

void Communicator::send(const void* input, std::size_t bytes, int peer, cudaStream_t stream, const Watch& watch) {
    settle(ncclSend(input, bytes, ncclInt8, peer, comm_, stream), watch);
}

void Communicator::receive(void* output, std::size_t bytes, int peer, cudaStream_t stream, const Watch& watch) {
    settle(ncclRecv(output, bytes, ncclInt8, peer, comm_, stream), watch);
}

void Communicator::check_health() const {
    if (comm_ == nullptr) return;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(comm_, &state);
    if (result != ncclSuccess) refuse(result, comm_);
    if (state != ncclSuccess && state != ncclInProgress) refuse(state, comm_);
}

void Communicator::abort() noexcept {
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
}

}  // namespace stepcast
