#include "tests/exec/cuda/emulation/machine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

namespace emulation {

long setting(const char* name, long standard) {
    const char* text = std::getenv(name);
    return text == nullptr || *text == '\0' ? standard : std::strtol(text, nullptr, 10);
}

Machine& machine() {
    static Machine& only = []() -> Machine& {
        auto* made = new Machine;
        made->devices.resize(static_cast<std::size_t>(setting("EMULATED_CUDA_DEVICES", 1)));
        for (Device& device : made->devices)
            device.limit = static_cast<std::size_t>(setting("EMULATED_CUDA_MEMORY", 4L << 30));
        return *made;
    }();
    return only;
}

int& current_device() {
    thread_local int device = 0;
    return device;
}

namespace {

thread_local cudaError_t last_error = cudaSuccess;

void do_work(int device, const std::function<void()>& run) {
    try {
        current_device() = device;
        run();
    } catch (const Failure& failure) {
        std::fprintf(stderr, "emulated CUDA device %d: %s\n", device, failure.what.c_str());
        const std::lock_guard lock(machine().mutex);
        machine().devices[static_cast<std::size_t>(device)].sticky = failure.code;
    }
}

void serve(CUstream_st* stream) {
    Machine& m = machine();
    std::unique_lock lock(m.mutex);
    for (;;) {
        stream->more.wait(lock, [&] { return !stream->queue.empty() || stream->closing; });
        if (stream->queue.empty()) break;
        const std::function<void()> run = std::move(stream->queue.front());
        stream->queue.pop_front();
        stream->busy = true;
        lock.unlock();
        do_work(stream->device, run);
        lock.lock();
        stream->busy = false;
        --m.devices[static_cast<std::size_t>(stream->device)].pending;
        m.changed.notify_all();
    }
    delete stream;
}

cudaError_t invalidate(Capture& capture, cudaError_t code) {
    capture.valid = false;
    return code;
}

}  // namespace

void start_worker(CUstream_st* stream) { std::thread(serve, stream).detach(); }

namespace {

void pause(long most) {
    if (most <= 0) return;
    thread_local std::mt19937 random(
        static_cast<unsigned>(std::hash<std::thread::id>{}(std::this_thread::get_id())));
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % static_cast<unsigned long>(most)));
}

}  // namespace

void dawdle() {
    static const long most = setting("EMULATED_CUDA_JITTER_US", 0);
    pause(most);
}

void come_late() {
    static const long most = setting("EMULATED_CUDA_LATE_US", 0);
    pause(most);
}

cudaError_t note(cudaError_t code) {
    if (code != cudaSuccess) last_error = code;
    return code;
}

cudaError_t take_last_error(bool keep) {
    return keep ? last_error : std::exchange(last_error, cudaSuccess);
}

// Modes: a global capture forbids such calls to every thread, a thread-local one to its own.
cudaError_t unsafe_call() {
    for (Capture* capture : machine().captures) {
        const bool own = capture->thread == std::this_thread::get_id();
        if (capture->mode == cudaStreamCaptureModeGlobal ||
            (capture->mode == cudaStreamCaptureModeThreadLocal && own))
            return invalidate(*capture, cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
}

cudaError_t capture_problem(CUstream_st* stream) {
    if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
    return unsafe_call();
}

CUstream_st* resolve(cudaStream_t stream) {
    Machine& m = machine();
    if (stream != nullptr) return m.streams.contains(stream) ? stream : nullptr;
    Device& device = m.devices[static_cast<std::size_t>(current_device())];
    if (!device.legacy) {
        device.legacy = std::make_unique<CUstream_st>();
        device.legacy->device = current_device();
        start_worker(device.legacy.get());
    }
    return device.legacy.get();
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> run) {
    return enqueue_plain(stream, [run = std::move(run)] {
        dawdle();
        run();
    });
}

cudaError_t enqueue_plain(cudaStream_t handle, std::function<void()> run, CUevent_st* external) {
    Machine& m = machine();
    const std::lock_guard lock(m.mutex);
    CUstream_st* stream = resolve(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    Device& device = m.devices[static_cast<std::size_t>(stream->device)];
    if (device.sticky != cudaSuccess) return device.sticky;
    if (Capture* capture = stream->capture.get(); capture != nullptr) {
        if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
        capture->nodes.push_back({std::move(run), stream->tips, external});
        stream->tips = {capture->nodes.size() - 1};
        return cudaSuccess;
    }
    // CU_EVENT_RECORD_EXTERNAL: invalid outside of a capture
    if (external != nullptr) return cudaErrorInvalidValue;
    ++device.pending;
    stream->queue.push_back(std::move(run));
    stream->more.notify_one();
    return cudaSuccess;
}

void load_first(const void* what) {
    static const bool lazy = setting("EMULATED_CUDA_LAZY", 0) != 0;
    if (!lazy) return;
    Machine& m = machine();
    std::unique_lock lock(m.mutex);
    Device& here = m.devices[static_cast<std::size_t>(current_device())];
    if (!here.loaded.insert(what).second) return;
    m.changed.wait(lock, [&] { return here.pending == 0; });
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

int owner(const void* data, std::size_t bytes) {
    Machine& m = machine();
    const std::lock_guard lock(m.mutex);
    const auto* address = static_cast<const char*>(data);
    for (std::size_t i = 0; i < m.devices.size(); ++i) {
        auto next = m.devices[i].blocks.upper_bound(address);
        if (next == m.devices[i].blocks.begin()) continue;
        --next;
        if (address + bytes <= next->first + next->second) return static_cast<int>(i);
    }
    return -1;
}

void require_memory(int device, const void* data, std::size_t bytes, const char* what) {
    if (bytes == 0) return;
    const int found = owner(data, bytes);
    const std::lock_guard lock(machine().mutex);
    if (found < 0)
        throw Failure{cudaErrorIllegalAddress, std::string(what) + ": no device memory there"};
    if (found != device &&
        !machine().devices[static_cast<std::size_t>(device)].peers.contains(found))
        throw Failure{cudaErrorIllegalAddress,
                      std::string(what) + ": memory of another device without peer access"};
}

}  // namespace emulation
