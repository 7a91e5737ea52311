// Emulated NCCL communicators and what is done on them.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "tests/exec/cuda/emulation/exchange.h"

namespace emulation {

struct Group {  // one communicator, kept by those who work on it
    int ranks = 0, rank = 0, device = 0;
    bool blocking = true;
    std::string path;
    std::unique_ptr<Exchange> exchange;
    std::atomic<ncclResult_t> state{ncclSuccess};
    std::atomic<bool> given_up{false};
    bool finalized = false;
    int splits = 0;
    std::mutex mutex;
    std::condition_variable changed;
    long issued = 0, served = 0;  // operations come in the order in which they were called
    std::string last_error;

    void fail(ncclResult_t code, const std::string& what);
};

// One operation as the stream does it.
struct Call {
    std::shared_ptr<Group> group;
    cudaStream_t stream;
    std::function<Outcome(Group&)> run;
    std::vector<Piece> sends, receives;  // of point-to-point calls, which a group joins
};

// Adds a call to the thread's open group, or does it at once.
ncclResult_t issue(Call call);
// The result of `work`, which runs now where the communicator is blocking, else in a thread of its
// own.
ncclResult_t do_or_promise(const std::shared_ptr<Group>& group, std::function<void()> work);
ncclResult_t usable(ncclComm_t comm);  // whether another call may begin

}  // namespace emulation

struct ncclComm {
    std::shared_ptr<emulation::Group> group;
};
