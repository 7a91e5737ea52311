#include "tests/exec/cuda/emulation/communicators.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/exec/cuda/emulation/machine.h"

namespace emulation {

void Group::fail(ncclResult_t code, const std::string& what) {
    const std::lock_guard lock(mutex);
    last_error = what;
    state = code;
}

ncclResult_t usable(ncclComm_t comm) {
    if (comm == nullptr) return ncclInvalidArgument;
    const ncclResult_t state = comm->group->state;
    if (state == ncclInProgress || comm->group->finalized) return ncclInvalidArgument;
    return state;
}

ncclResult_t do_or_promise(const std::shared_ptr<Group>& group, std::function<void()> work) {
    if (group->blocking) {
        work();
        return group->state;
    }
    group->state = ncclInProgress;
    std::thread([group, work = std::move(work)] {
        current_device() = group->device;
        work();
        ncclResult_t busy = ncclInProgress;
        group->state.compare_exchange_strong(busy, ncclSuccess);
    }).detach();
    return ncclInProgress;
}

namespace {

struct OpenGroup {
    int depth = 0;
    std::vector<Call> calls;
};
OpenGroup& open_group() {
    thread_local OpenGroup one;
    return one;
}

// Faults on demand: EMULATED_NCCL_ABSENT=R,N: rank R never comes to its call N of a communicator;
// EMULATED_NCCL_ERROR=R,N: the communicator fails there.
bool is_due(const char* name, const Group& group, long call) {
    const char* text = std::getenv(name);
    int rank = -1;
    long number = -1;
    return text != nullptr && std::sscanf(text, "%d,%ld", &rank, &number) == 2 &&
           rank == group.rank && number == call;
}

void wait_for_abort(Group& group) {
    std::unique_lock lock(group.mutex);
    group.changed.wait(lock, [&] { return group.given_up.load(); });
}

void perform(const Call& call, long ticket) {
    Group& group = *call.group;
    {
        std::unique_lock lock(group.mutex);
        group.changed.wait(lock,
                           [&] { return group.given_up || ticket < 0 || group.served == ticket; });
    }
    const bool absent = is_due("EMULATED_NCCL_ABSENT", group, group.served);
    if (is_due("EMULATED_NCCL_ERROR", group, group.served)) {
        group.fail(ncclSystemError, "an error on demand");
        wait_for_abort(group);
    }
    if (absent) wait_for_abort(group);
    Outcome outcome = group.given_up ? Outcome::given_up : call.run(group);
    if (outcome == Outcome::peer_gone) group.fail(ncclRemoteError, "a peer is gone");
    if (outcome == Outcome::mismatch) {
        std::fprintf(stderr, "emulated NCCL: %s\n", group.exchange->complaint().c_str());
        group.fail(ncclInvalidUsage, group.exchange->complaint());
    }
    // as a kernel that spins
    if (outcome == Outcome::peer_gone || outcome == Outcome::mismatch) wait_for_abort(group);
    const std::lock_guard lock(group.mutex);
    ++group.served;
    group.changed.notify_all();
}

void queue(const Call& call) {
    Group& group = *call.group;
    bool captured = false;
    int device = -1;
    {
        const std::lock_guard lock(machine().mutex);
        if (const CUstream_st* stream = resolve(call.stream); stream != nullptr) {
            captured = stream->capture != nullptr;
            device = stream->device;
        }
    }
    if (device != group.device)
        return group.fail(ncclInvalidUsage, "the stream is of another device");
    load_first(&group);
    if (captured && is_due("EMULATED_NCCL_ERROR", group, group.issued))
        return group.fail(ncclSystemError, "an error on demand inside a capture");
    long ticket = -1;  // inside a graph its edges are the order
    if (!captured) {
        const std::lock_guard lock(group.mutex);
        ticket = group.issued++;
    }
    if (const cudaError_t code = enqueue(call.stream, [call, ticket] { perform(call, ticket); });
        code != cudaSuccess)
        group.fail(ncclUnhandledCudaError, cudaGetErrorName(code));
}

// The sends and receives of one communicator on one stream become one exchange.
std::vector<Call> joined(std::vector<Call> calls) {
    std::vector<Call> all;
    for (Call& call : calls) {
        Call* same = nullptr;
        for (Call& before : all)
            if (!before.run && !call.run && before.group == call.group &&
                before.stream == call.stream)
                same = &before;
        if (same == nullptr) {
            all.push_back(std::move(call));
            continue;
        }
        same->sends.insert(same->sends.end(), call.sends.begin(), call.sends.end());
        same->receives.insert(same->receives.end(), call.receives.begin(), call.receives.end());
    }
    for (Call& call : all)
        if (!call.run)
            call.run = [sends = call.sends, receives = call.receives](Group& group) {
                for (const auto* pieces : {&sends, &receives})
                    for (const Piece& piece : *pieces)
                        require_memory(group.device, piece.data, piece.bytes, "a message");
                return group.exchange->run(sends, receives, group.given_up);
            };
    return all;
}

ncclResult_t flush() {
    std::vector<Call> calls = joined(std::move(open_group().calls));
    open_group().calls.clear();
    ncclResult_t result = ncclSuccess;
    for (const Call& call : calls)
        if (const ncclResult_t one = do_or_promise(call.group, [call] { queue(call); });
            one != ncclSuccess)
            result = one;
    return result;
}

}  // namespace

ncclResult_t issue(Call call) {
    open_group().calls.push_back(std::move(call));
    return open_group().depth > 0 ? ncclSuccess : flush();
}

}  // namespace emulation

using namespace emulation;

extern "C" {

ncclResult_t ncclGroupStart() {
    ++open_group().depth;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
    if (open_group().depth == 0) return ncclInvalidUsage;
    return --open_group().depth > 0 ? ncclSuccess : flush();
}

ncclResult_t ncclGetVersion(int* version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    *id = {};
    const char* folder = std::getenv("TMPDIR");
    std::random_device random;
    std::snprintf(id->internal, sizeof id->internal, "%s/emulated-nccl-%d-%08x",
                  folder != nullptr ? folder : "/tmp", static_cast<int>(getpid()), random());
    return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t code) {
    switch (code) {
        case ncclSuccess: return "no error";
        case ncclUnhandledCudaError: return "unhandled cuda error";
        case ncclSystemError: return "unhandled system error";
        case ncclInternalError: return "internal error";
        case ncclInvalidArgument: return "invalid argument";
        case ncclInvalidUsage: return "invalid usage";
        case ncclRemoteError: return "remote process exited or there was a network error";
        case ncclInProgress: return "NCCL operation in progress";
        default: return "unknown result code";
    }
}
const char* ncclGetLastError(ncclComm_t comm) {
    thread_local std::string text;
    if (comm == nullptr) return "";
    const std::lock_guard lock(comm->group->mutex);
    text = comm->group->last_error;
    return text.c_str();
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
    if (comm == nullptr) return ncclInvalidArgument;
    *state = comm->group->state;
    return ncclSuccess;
}
}
