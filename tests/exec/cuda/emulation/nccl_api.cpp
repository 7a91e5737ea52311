// NCCL's calls that make and end communicators, and those that communicate.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/exec/cuda/emulation/communicators.h"
#include "tests/exec/cuda/emulation/machine.h"

using namespace emulation;

namespace {

std::string own_gpu(int device) {
    char host[64] = "", bus[32] = "";
    gethostname(host, sizeof host - 1);
    cudaDeviceGetPCIBusId(bus, sizeof bus, device);
    const char* named = std::getenv("NCCL_HOSTID");
    return std::string(named != nullptr ? named : host) + " " + bus;
}

void open_exchange(Group& group) {
    group.exchange =
        std::make_unique<Exchange>(group.path, group.ranks, group.rank, own_gpu(group.device));
    const Outcome outcome = group.exchange->meet(group.given_up);
    if (outcome == Outcome::peer_gone) return group.fail(ncclRemoteError, "a peer is gone");
    if (outcome == Outcome::done && group.exchange->shares_a_gpu())
        group.fail(ncclInvalidUsage, "Duplicate GPU detected");
}

bool is_valid(const ncclConfig_t& config) {
    return config.size == sizeof config && config.magic == 0xcafebeef;
}

struct Choice {
    int color, key;
};

// Everybody's choice decides who is in the new communicator, and as what.
void do_split(const std::shared_ptr<Group>& parent, const std::shared_ptr<Group>& child, Choice own,
              int number) {
    std::vector<Choice> all(static_cast<std::size_t>(parent->ranks));
    all[static_cast<std::size_t>(parent->rank)] = own;
    std::vector<Piece> sends, receives;
    constexpr std::uint32_t tag = 1;
    for (int peer = 0; peer < parent->ranks; ++peer) {
        if (peer == parent->rank) continue;
        sends.push_back({peer, reinterpret_cast<char*>(&own), sizeof own, tag});
        receives.push_back(
            {peer, reinterpret_cast<char*>(&all[static_cast<std::size_t>(peer)]), sizeof own, tag});
    }
    const Outcome outcome = parent->exchange->run(sends, receives, parent->given_up);
    if (outcome != Outcome::done) return parent->fail(ncclRemoteError, "a split without a peer");
    if (!child) return;
    std::vector<std::pair<int, int>> members;  // key, rank
    for (int rank = 0; rank < parent->ranks; ++rank)
        if (const Choice& one = all[static_cast<std::size_t>(rank)]; one.color == own.color)
            members.emplace_back(one.key, rank);
    std::sort(members.begin(), members.end());
    child->ranks = static_cast<int>(members.size());
    for (int i = 0; i < child->ranks; ++i)
        if (members[static_cast<std::size_t>(i)].second == parent->rank) child->rank = i;
    child->path = parent->path + "-" + std::to_string(number) + "-" + std::to_string(own.color);
    open_exchange(*child);
    ncclResult_t busy = ncclInProgress;
    child->state.compare_exchange_strong(busy, ncclSuccess);
}

// A float sum of what everybody sent, in the order of the ranks, into `output`.
void add_up(const std::vector<std::vector<float>>& values, void* output) {
    auto* sum = static_cast<float*>(output);
    std::copy(values.front().begin(), values.front().end(), sum);
    for (std::size_t rank = 1; rank < values.size(); ++rank)
        for (std::size_t i = 0; i < values[rank].size(); ++i) sum[i] += values[rank][i];
}

enum class Kind : std::uint32_t {
    all_reduce = 2,
    all_gather,
    reduce_scatter,
    broadcast,
    reduce,
    message
};

struct Collective {
    Kind kind;
    const char* input;
    char* output;
    std::size_t bytes;  // of one share
    int root = 0;

    [[nodiscard]] bool is_root(const Group& group) const { return root == group.rank; }
    // Bytes that this rank sends to `peer`, and where they begin.
    [[nodiscard]] bool sends(const Group& group, int peer) const {
        if (kind == Kind::broadcast) return is_root(group);
        return kind != Kind::reduce || peer == root;
    }
    [[nodiscard]] bool receives(const Group& group, int peer) const {
        if (kind == Kind::broadcast) return peer == root;
        return kind != Kind::reduce || is_root(group);
    }
    [[nodiscard]] const char* part(int peer) const {
        return kind == Kind::reduce_scatter ? input + static_cast<std::size_t>(peer) * bytes
                                            : input;
    }
    void require_operands(const Group& group) const {
        const auto all = bytes * static_cast<std::size_t>(group.ranks);
        if (kind != Kind::broadcast || is_root(group))
            require_memory(group.device, input, kind == Kind::reduce_scatter ? all : bytes,
                           "a collective's input");
        if (kind != Kind::reduce || is_root(group))
            require_memory(group.device, output, kind == Kind::all_gather ? all : bytes,
                           "a collective's output");
    }

    Outcome operator()(Group& group) const {
        require_operands(group);
        const bool sums =
            kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::reduce;
        std::vector<std::vector<float>> values(static_cast<std::size_t>(group.ranks));
        std::vector<Piece> out, in;
        const auto tag = static_cast<std::uint32_t>(kind) + 16 * static_cast<std::uint32_t>(root);
        const auto target = [&](int peer) {
            if (kind == Kind::all_gather) return output + static_cast<std::size_t>(peer) * bytes;
            if (!sums) return output;
            values[static_cast<std::size_t>(peer)].resize(bytes / sizeof(float));
            return reinterpret_cast<char*>(values[static_cast<std::size_t>(peer)].data());
        };
        for (int peer = 0; peer < group.ranks; ++peer) {
            if (peer == group.rank) {
                if (receives(group, peer)) std::memmove(target(peer), part(peer), bytes);
                continue;
            }
            if (sends(group, peer))
                out.push_back({peer, const_cast<char*>(part(peer)), bytes, tag});
            if (receives(group, peer)) in.push_back({peer, target(peer), bytes, tag});
        }
        const Outcome outcome = group.exchange->run(out, in, group.given_up);
        if (outcome == Outcome::done && sums && (kind != Kind::reduce || is_root(group)))
            add_up(values, output);
        return outcome;
    }
};

ncclResult_t start(Kind kind, const void* input, void* output, std::size_t count,
                   ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
    if (const ncclResult_t state = usable(comm); state != ncclSuccess) return state;
    if (type != ncclFloat32 || root < 0 || root >= comm->group->ranks) return ncclInvalidArgument;
    return issue({comm->group,
                  stream,
                  Collective{kind, static_cast<const char*>(input), static_cast<char*>(output),
                             count * sizeof(float), root},
                  {},
                  {}});
}

ncclResult_t message(char* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                     cudaStream_t stream, bool sends) {
    if (const ncclResult_t state = usable(comm); state != ncclSuccess) return state;
    if (type != ncclInt8 || peer < 0 || peer >= comm->group->ranks) return ncclInvalidArgument;
    const Piece piece{peer, data, count, static_cast<std::uint32_t>(Kind::message)};
    Call call{comm->group, stream, {}, {}, {}};
    (sends ? call.sends : call.receives).push_back(piece);
    return issue(std::move(call));
}

}  // namespace

extern "C" {

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    *comm = nullptr;
    if (config == nullptr || !is_valid(*config) || rank < 0 || rank >= ranks || ranks > most_ranks)
        return ncclInvalidArgument;
    auto group = std::make_shared<Group>();
    group->ranks = ranks;
    group->rank = rank;
    group->device = current_device();
    group->blocking = config->blocking != 0;
    group->path = id.internal;
    *comm = new ncclComm{group};
    return do_or_promise(group, [group] { open_exchange(*group); });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
    *made = nullptr;
    if (const ncclResult_t state = usable(comm); state != ncclSuccess) return state;
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return ncclInvalidArgument;
    if (config != nullptr && !is_valid(*config)) return ncclInvalidArgument;
    const std::shared_ptr<Group> parent = comm->group;
    std::shared_ptr<Group> child;
    if (color >= 0) {
        child = std::make_shared<Group>();
        child->device = parent->device;
        child->blocking = config != nullptr && config->blocking != NCCL_CONFIG_UNDEF_INT
                              ? config->blocking != 0
                              : parent->blocking;
        if (!child->blocking) child->state = ncclInProgress;
        *made = new ncclComm{child};
    }
    const int number = parent->splits++;
    return do_or_promise(parent, [=] { do_split(parent, child, {color, key}, number); });
}

// "The state will change to ncclSuccess when the communicator is globally quiescent".
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    if (const ncclResult_t state = usable(comm); state != ncclSuccess) return state;
    const std::shared_ptr<Group> group = comm->group;
    group->finalized = true;
    return do_or_promise(group, [group] {
        {
            std::unique_lock lock(group->mutex);
            group->changed.wait(lock,
                                [&] { return group->given_up || group->served >= group->issued; });
        }
        if (group->exchange->leave(group->given_up) == Outcome::peer_gone)
            group->fail(ncclRemoteError, "a peer is gone");
    });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    if (comm == nullptr) return ncclInvalidArgument;
    {
        const std::lock_guard lock(machine().mutex);
        if (unsafe_call() != cudaSuccess)  // it gives memory back
            std::fprintf(stderr, "emulated NCCL: an abort while this thread's capture is open\n");
    }
    {
        const std::lock_guard lock(comm->group->mutex);
        comm->group->given_up = true;
        comm->group->changed.notify_all();
    }
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return op != ncclSum ? ncclInvalidArgument
                         : start(Kind::all_reduce, input, output, count, type, 0, comm, stream);
}
ncclResult_t ncclAllGather(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    return start(Kind::all_gather, input, output, count, type, 0, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* input, void* output, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
    return op != ncclSum ? ncclInvalidArgument
                         : start(Kind::reduce_scatter, input, output, count, type, 0, comm, stream);
}
ncclResult_t ncclBroadcast(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
    return start(Kind::broadcast, input, output, count, type, root, comm, stream);
}
ncclResult_t ncclReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    return op != ncclSum ? ncclInvalidArgument
                         : start(Kind::reduce, input, output, count, type, root, comm, stream);
}
ncclResult_t ncclSend(const void* input, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
    return message(static_cast<char*>(const_cast<void*>(input)), count, type, peer, comm, stream,
                   true);
}
ncclResult_t ncclRecv(void* output, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
    return message(static_cast<char*>(output), count, type, peer, comm, stream, false);
}
}
