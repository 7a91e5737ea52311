// A CUDA machine in software, for tests only: stand-ins of libcudart, libcublas, libcublasLt,
// libnccl and NVML under their own names, so that the programs that are shipped run on it
// unchanged. It checks the host code's logic (order, edges, errors, capture rules, sizes) and each
// op's arithmetic. It says nothing about time, nothing about NVIDIA's libraries beyond what their
// headers promise, and it is no way to do without a GPU: it lives in the build's test folder and
// names itself.
//
// This file: devices, streams (a worker thread and a queue each), events, and what is captured
// instead of queued.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace emulation {

// What EMULATED_CUDA_... and EMULATED_NCCL_... say; `standard` when unset.
long setting(const char* name, long standard);

struct Failure {  // thrown by work on a stream; becomes the device's sticky error
    cudaError_t code;
    std::string what;
};

// One recording of an event.
struct Moment {
    bool done = false;
    double seconds = 0;
};

struct Node {
    std::function<void()> run;
    std::vector<std::size_t> after;      // indices of earlier nodes
    struct CUevent_st* event = nullptr;  // an external recording
};

struct Capture {
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    struct CUstream_st* origin;
    std::vector<Node> nodes;
    std::set<struct CUstream_st*> streams;
    bool valid = true;
};

struct Device {
    std::map<const char*, std::size_t> blocks;
    std::size_t used = 0, limit = 0;
    long pending = 0;  // entries of all its streams that are not over
    cudaError_t sticky = cudaSuccess;
    std::unique_ptr<CUstream_st> legacy;
    std::set<int> peers;  // whose memory it may reach
    std::set<const void*> loaded;
};

// One lock for everything: the work itself runs outside of it.
struct Machine {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Device> devices;
    std::set<CUstream_st*> streams;
    std::set<CUevent_st*> events;
    std::set<Capture*> captures;
};
Machine& machine();  // never destroyed: workers outlive main()

int& current_device();
cudaError_t note(cudaError_t code);  // as the thread's last error, unless it is success; returns it
cudaError_t take_last_error(bool keep);

// With the machine locked. Whether this thread may make a call that could wait for the GPU; if not,
// captures that forbid it are broken.
cudaError_t unsafe_call();
cudaError_t capture_problem(CUstream_st* stream);  // of a synchronisation or query of the stream

// A random pause before each piece of work, so that what is not ordered by an edge runs in any
// order; by EMULATED_CUDA_LATE_US before each moment too, as where other processes have the GPU in
// turn.
void dawdle();
void come_late();
// Queues work, or captures it; `null` is the legacy stream of the current device.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> run);
// As it is: moments, waits, external recordings.
cudaError_t enqueue_plain(cudaStream_t stream, std::function<void()> run,
                          CUevent_st* external = nullptr);
// With EMULATED_CUDA_LAZY=1: what is used for the first time on a device waits for everything that
// runs there, as loading a kernel may.
void load_first(const void* what);
CUstream_st* resolve(cudaStream_t stream);  // null when it is none
double now();

// Where device memory begins and ends; the device that owns it, or -1.
int owner(const void* data, std::size_t bytes);
// Throws Failure{cudaErrorIllegalAddress} unless `device` may reach all of it.
void require_memory(int device, const void* data, std::size_t bytes, const char* what);

}  // namespace emulation

struct CUstream_st {
    int device = 0;
    std::deque<std::function<void()>> queue;
    bool busy = false, closing = false;
    std::shared_ptr<emulation::Capture> capture;
    std::vector<std::size_t> tips;  // nodes that the next one comes after
    std::condition_variable more;   // the queue's
};

struct CUevent_st {
    int device = 0;
    unsigned int flags = 0;
    std::shared_ptr<emulation::Moment> moment;    // last recording; null: none yet
    std::shared_ptr<emulation::Capture> capture;  // last recorded inside this one
    std::vector<std::size_t> nodes;
};

struct CUgraph_st {
    std::vector<emulation::Node> nodes;
    int device = 0;
};

struct CUgraphExec_st {
    std::vector<emulation::Node> nodes;
    std::vector<std::vector<std::size_t>> chains;  // nodes that one thread runs one after another
    int device = 0;
    bool running = false;
};
