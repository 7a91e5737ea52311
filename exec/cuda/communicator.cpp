#include "exec/cuda/communicator.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "exec/cuda/check.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/graph/op.h"

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
    if (code == ncclInvalidUsage && last != nullptr &&
        std::string_view(last).find("Duplicate GPU") != std::string_view::npos)
        throw ConfigError(
            fmt::format("execute: two ranks on one GPU, which NCCL refuses ({}); start one process "
                        "a GPU, or give each another NCCL_HOSTID to test without regard to time",
                        last));
    throw DeviceError(
        std::string("NCCL: ") + ncclGetErrorString(code) +
        (last != nullptr && *last != '\0' ? std::string(" (") + last + ")" : std::string()));
}

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

Communicator::Communicator(const ncclUniqueId& id, int ranks, int rank, const Watch& watch)
    : index_(as_index(rank)), size_(as_index(ranks)) {
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

Communicator::Communicator(Communicator&& other) noexcept
    : comm_(std::exchange(other.comm_, nullptr)), index_(other.index_), size_(other.size_) {}
Communicator& Communicator::operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    index_ = other.index_;
    size_ = other.size_;
    return *this;
}

// After a run that ends well everything has been synchronised; after a failure abort() came first.
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

Communicator Communicator::split(const std::vector<int>& members, int rank, const Watch& watch) {
    Communicator made;
    made.index_ = as_index(std::ranges::find(members, rank) - members.begin());
    made.size_ = members.size();
    ncclConfig_t config = polled();
    const int color = made.index_ < made.size_ ? 0 : NCCL_SPLIT_NOCOLOR;
    const ncclResult_t result =
        ncclCommSplit(comm_, color, as_int(made.index_), &made.comm_, &config);
    try {
        wait_for(comm_, result, watch);
        if (made.comm_ != nullptr) wait_for(made.comm_, ncclSuccess, watch);
    } catch (...) {
        made.abort();
        throw;
    }
    return made;
}

namespace {

// The share of one rank in one op. Counts are fp32 elements, or bytes if ranks exchange messages.
struct Share {
    ncclComm_t comm;
    std::size_t index, count;
    const CudaOperands& at;
    cudaStream_t stream;
    const Watch& watch;

    void settle(ncclResult_t result) const { wait_for(comm, result, watch); }
    [[nodiscard]] std::size_t share(Bytes bytes) const {
        return (float_count(bytes) + count - 1) / count;
    }

    void operator()(const AllReduce& op) const {
        settle(ncclAllReduce(at.in[0], at.out[0], float_count(op.bytes), ncclFloat32, ncclSum, comm,
                             stream));
    }
    void operator()(const AllGather& op) const {
        settle(ncclAllGather(at.in[0], at.out[0], share(op.bytes), ncclFloat32, comm, stream));
    }
    void operator()(const ReduceScatter& op) const {
        settle(ncclReduceScatter(at.in[0], at.out[0], share(op.bytes), ncclFloat32, ncclSum, comm,
                                 stream));
    }
    void operator()(const Broadcast& op) const {
        settle(ncclBroadcast(at.in[0], at.out[0], float_count(op.bytes), ncclFloat32, op.root, comm,
                             stream));
    }
    void operator()(const Reduce& op) const {
        settle(ncclReduce(at.in[0], at.out[0], float_count(op.bytes), ncclFloat32, ncclSum, op.root,
                          comm, stream));
    }
    // Inside a group a call only queues; the end of the group may answer ncclInProgress.
    void queue(ncclResult_t result) const {
        if (result == ncclSuccess || result == ncclInProgress) return;
        ncclGroupEnd();
        refuse(result, comm);
    }
    void operator()(const AllToAll& op) const {
        const ExchangeCounts floats = exchange_counts(op, index, count);
        const char* source = at.in[0];
        char* target = at.out[0];
        check(ncclGroupStart());
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t to = 4 * floats.to[i], from = 4 * floats.from[i];
            const int peer = as_int(i);
            if (to > 0) queue(ncclSend(source, to, ncclInt8, peer, comm, stream));
            if (from > 0) queue(ncclRecv(target, from, ncclInt8, peer, comm, stream));
            source += to;
            target += from;
        }
        settle(ncclGroupEnd());
    }
    void operator()(const SendRecv& op) const {
        const auto messages = as_index(op.messages);
        for (std::size_t message = 0; message < messages; ++message) {
            const Part part = part_of(static_cast<std::size_t>(op.bytes.si()), message, messages);
            if (index == 0)
                settle(ncclSend(at.in[0] + part.begin, part.size(), ncclInt8, 1, comm, stream));
            else
                settle(ncclRecv(at.out[0] + part.begin, part.size(), ncclInt8, 0, comm, stream));
        }
    }
    // NCCL has no barrier. A sum of one number needs every rank.
    void operator()(const Barrier&) const {
        settle(ncclAllReduce(at.in[0], at.out[0], 1, ncclFloat32, ncclSum, comm, stream));
    }
    void operator()(const LocalOp auto& op) const {
        throw std::logic_error(fmt::format("{} has places on several ranks", kind_name(op)));
    }
};

}  // namespace

void Communicator::run(const Op& op, const CudaOperands& at, cudaStream_t stream,
                       const Watch& watch) {
    std::visit(Share{comm_, index_, size_, at, stream, watch}, op);
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
