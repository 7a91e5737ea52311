// The runtime's calls about devices, memory and errors.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/exec/cuda/emulation/machine.h"

using namespace emulation;

namespace {

constexpr int multiprocessors = 8;

bool exists(int device) {
    return device >= 0 && device < static_cast<int>(machine().devices.size());
}
Device& here() { return machine().devices[static_cast<std::size_t>(current_device())]; }

constexpr std::size_t page = 4096, alignment = 256;
std::size_t pages_for(std::size_t bytes) { return (bytes + page - 1) / page * page; }

// Ends at a page that nobody may touch, as far as the alignment allows.
char* map_block(std::size_t bytes) {
    const std::size_t size = pages_for(bytes);
    void* data = mmap(nullptr, size + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    mprotect(static_cast<char*>(data) + size, page, PROT_NONE);
    char* begin =
        static_cast<char*>(data) + (size - (bytes + alignment - 1) / alignment * alignment);
    constexpr std::size_t most_marked = std::size_t{8} << 20;
    // not a number in every format: what is used unset shows
    std::memset(begin, 0xff, std::min(bytes, most_marked));
    return begin;
}

cudaError_t wait_idle(std::unique_lock<std::mutex>& lock, Device& device) {
    machine().changed.wait(lock, [&] { return device.pending == 0; });
    return device.sticky;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    if (setting("EMULATED_CUDA_DRIVER", CUDART_VERSION) < CUDART_VERSION)
        return note(cudaErrorInsufficientDriver);
    if (machine().devices.empty()) return note(cudaErrorNoDevice);
    *count = static_cast<int>(machine().devices.size());
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    if (!exists(device)) return note(cudaErrorInvalidDevice);
    current_device() = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    *device = current_device();
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = static_cast<int>(setting("EMULATED_CUDA_DRIVER", CUDART_VERSION));
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (!exists(device)) return note(cudaErrorInvalidDevice);
    *properties = {};
    std::strcpy(properties->name, "emulated CUDA device (tests only)");
    properties->multiProcessorCount = multiprocessors;
    properties->major = static_cast<int>(setting("EMULATED_CUDA_CAPABILITY", 90)) / 10;
    properties->minor = static_cast<int>(setting("EMULATED_CUDA_CAPABILITY", 90)) % 10;
    properties->totalGlobalMem = machine().devices[static_cast<std::size_t>(device)].limit;
    properties->l2CacheSize = 1 << 20;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (!exists(device)) return note(cudaErrorInvalidDevice);
    const int capability = static_cast<int>(setting("EMULATED_CUDA_CAPABILITY", 90));
    switch (attribute) {
        case cudaDevAttrComputeCapabilityMajor: *value = capability / 10; return cudaSuccess;
        case cudaDevAttrComputeCapabilityMinor: *value = capability % 10; return cudaSuccess;
        case cudaDevAttrMultiProcessorCount: *value = multiprocessors; return cudaSuccess;
        // kHz: what is sized by speed is small here
        case cudaDevAttrMemoryClockRate: *value = 4; return cudaSuccess;
        case cudaDevAttrGlobalMemoryBusWidth: *value = 4096; return cudaSuccess;
        default:
            std::fprintf(stderr, "emulated CUDA: attribute %d is not emulated\n",
                         static_cast<int>(attribute));
    }
    return note(cudaErrorInvalidValue);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
    if (!exists(device)) return note(cudaErrorInvalidDevice);
    if (length < 13) return note(cudaErrorInvalidValue);
    std::snprintf(text, static_cast<std::size_t>(length), "ffff:%02x:00.0", device);
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    if (!exists(device) || !exists(peer)) return note(cudaErrorInvalidDevice);
    *can = device != peer && setting("EMULATED_CUDA_PEERS", 1) != 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
    if (!exists(peer) || peer == current_device()) return note(cudaErrorInvalidDevice);
    if (flags != 0) return note(cudaErrorInvalidValue);
    if (setting("EMULATED_CUDA_PEERS", 1) == 0) return note(cudaErrorPeerAccessUnsupported);
    const std::lock_guard lock(machine().mutex);
    return here().peers.insert(peer).second ? cudaSuccess : note(cudaErrorPeerAccessAlreadyEnabled);
}
cudaError_t cudaDeviceSynchronize() {
    std::unique_lock lock(machine().mutex);
    for (CUstream_st* stream : machine().streams)
        if (stream->device == current_device() && stream->capture)
            return note(capture_problem(stream));
    if (const cudaError_t code = unsafe_call(); code != cudaSuccess) return note(code);
    return note(wait_idle(lock, here()));
}

cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* whole) {
    const std::lock_guard lock(machine().mutex);
    *whole = here().limit;
    *available = here().limit - here().used;
    return note(here().sticky);
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
    const std::lock_guard lock(machine().mutex);
    if (const cudaError_t code = unsafe_call(); code != cudaSuccess) return note(code);
    if (here().sticky != cudaSuccess) return note(here().sticky);
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > here().limit - here().used) return note(cudaErrorMemoryAllocation);
    char* block = map_block(bytes);
    if (block == nullptr) return note(cudaErrorMemoryAllocation);
    here().blocks[block] = bytes;
    here().used += bytes;
    *data = block;
    return cudaSuccess;
}
// Waits for the device, as the real one may: what still runs may use the memory.
cudaError_t cudaFree(void* data) {
    if (data == nullptr) return cudaSuccess;
    std::unique_lock lock(machine().mutex);
    if (const cudaError_t code = unsafe_call(); code != cudaSuccess) return note(code);
    for (Device& device : machine().devices)
        if (const auto block = device.blocks.find(static_cast<char*>(data));
            block != device.blocks.end()) {
            wait_idle(lock, device);
            const std::size_t bytes = device.blocks.at(static_cast<char*>(data)),
                              size = pages_for(bytes);
            char* begin =
                static_cast<char*>(data) - (size - (bytes + alignment - 1) / alignment * alignment);
            munmap(begin, size + page);
            device.used -= bytes;
            device.blocks.erase(static_cast<char*>(data));
            return note(device.sticky);
        }
    return note(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!to_device && !from_device) return note(cudaErrorInvalidMemcpyDirection);
    if (bytes > 0 &&
        ((owner(target, bytes) >= 0) != to_device || (owner(source, bytes) >= 0) != from_device))
        return note(cudaErrorInvalidValue);
    return note(enqueue(stream, [=] { std::memmove(target, source, bytes); }));
}
cudaError_t cudaMemcpyPeerAsync(void* target, int target_device, const void* source,
                                int source_device, std::size_t bytes, cudaStream_t stream) {
    if (!exists(target_device) || !exists(source_device)) return note(cudaErrorInvalidDevice);
    if (bytes > 0 &&
        (owner(target, bytes) != target_device || owner(source, bytes) != source_device))
        return note(cudaErrorInvalidValue);
    return note(enqueue(stream, [=] { std::memmove(target, source, bytes); }));
}
cudaError_t cudaMemcpy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
    {
        const std::lock_guard lock(machine().mutex);
        if (const cudaError_t code = unsafe_call(); code != cudaSuccess) return note(code);
    }
    if (const cudaError_t code = cudaMemcpyAsync(target, source, bytes, kind, nullptr);
        code != cudaSuccess)
        return code;
    return cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemset(void* target, int value, std::size_t bytes) {
    {
        const std::lock_guard lock(machine().mutex);
        if (const cudaError_t code = unsafe_call(); code != cudaSuccess) return note(code);
    }
    if (bytes > 0 && owner(target, bytes) < 0) return note(cudaErrorInvalidValue);
    return note(enqueue(nullptr, [=] { std::memset(target, value, bytes); }));
}

cudaError_t cudaGetLastError() { return take_last_error(false); }
cudaError_t cudaPeekAtLastError() { return take_last_error(true); }

const char* cudaGetErrorName(cudaError_t code) {
    switch (code) {
        case cudaSuccess: return "cudaSuccess";
        case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
        case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
        case cudaErrorNoDevice: return "cudaErrorNoDevice";
        case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
        case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
        case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
        case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
        case cudaErrorNotReady: return "cudaErrorNotReady";
        case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
        case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
        case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
        case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
        case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
        case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
        default: return "an error of the emulated CUDA device";
    }
}
const char* cudaGetErrorString(cudaError_t code) {
    if (code == cudaErrorMemoryAllocation) return "out of memory";
    return cudaGetErrorName(code);
}
}
