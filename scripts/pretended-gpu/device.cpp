// A pretended CUDA device: what PyTorch's libraries import of CUDA, answered without a GPU. Memory
// is counted (cudaMalloc, and cuMemCreate with cuMemMap for expandable segments) up to a capacity
// and has addresses of its own, which nothing may read or write. Kernels, copies and products do
// nothing; what a copy brings to the host is zeros. So sizes and order of all tensors are PyTorch's
// own, as is the caching allocator; values and times are not to be had.
//
// PRETENDED_GPU_MEMORY: capacity in bytes (default 80 GiB less nothing). PRETENDED_GPU_EVENTS:
// "done" (default; work has ended when asked about) or "late" (only when the host waits for the
// stream, the event or the device). PRETENDED_GPU_KEEPS=1: a host that reads where it wrote last,
// as DistributedDataParallel reads its buckets' order, finds that and not zeros.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn_graph.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#define ANSWER extern "C" __attribute__((visibility("default")))

namespace {

std::mutex lock;
std::map<std::uintptr_t, std::size_t>
    pieces;  // address: bytes, of cudaMalloc and of reserved ranges
std::map<std::uintptr_t, std::size_t> pinned;  // the same of the host's, by cudaHostAlloc
std::size_t taken = 0;
thread_local cudaError_t last = cudaSuccess;

std::size_t capacity() {
    static const std::size_t bytes = [] {
        const char* said = std::getenv("PRETENDED_GPU_MEMORY");
        return said ? std::strtoull(said, nullptr, 10) : std::size_t{80} << 30;
    }();
    return bytes;
}

bool late() {
    static const bool is = [] {
        const char* said = std::getenv("PRETENDED_GPU_EVENTS");
        return said && std::strcmp(said, "late") == 0;
    }();
    return is;
}

cudaError_t fails(cudaError_t error) { return last = error; }

// All addresses of the device lie in one range of the process that is never mapped.
constexpr std::size_t range_bytes = std::size_t{64} << 40;
std::uintptr_t range_begin() {
    static const auto begin = reinterpret_cast<std::uintptr_t>(
        mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    return begin;
}
bool on_device(const void* at) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    return address >= range_begin() && address < range_begin() + range_bytes;
}
std::uintptr_t new_addresses(std::size_t bytes) {
    static std::uintptr_t next = (range_begin() + (1 << 21)) & ~std::uintptr_t{(1 << 21) - 1};
    const auto found = next;
    next += (bytes + (1 << 21) - 1) & ~std::size_t{(1 << 21) - 1};
    return found;
}

struct Work {
    std::atomic<std::uint64_t> issued{1}, done{0};
};
Work everything;  // streams in one order: a host that waits for one has waited for all before it

struct Event {
    std::uint64_t at = 0;
};
void host_waits() { everything.done = everything.issued.load(); }

// What the host wrote last to an address of the device.
std::map<const void*, std::vector<char>>& written() {
    static std::map<const void*, std::vector<char>> all;
    return all;
}
bool keeps(std::size_t bytes) {
    static const bool is = std::getenv("PRETENDED_GPU_KEEPS") != nullptr;
    return is && bytes <= std::size_t{1} << 20;
}

void bring(void* to, const void* from, std::size_t bytes) {
    if (on_device(to)) {
        if (on_device(from) || !keeps(bytes)) return;
        const std::lock_guard<std::mutex> hold(lock);
        const char* begin = static_cast<const char*>(from);
        written()[to].assign(begin, begin + bytes);
        return;
    }
    if (on_device(from) && keeps(bytes)) {
        const std::lock_guard<std::mutex> hold(lock);
        const auto found = written().find(from);
        if (found != written().end() && found->second.size() == bytes) {
            std::memcpy(to, found->second.data(), bytes);
            return;
        }
    }
    if (on_device(from))
        std::memset(to, 0, bytes);
    else
        std::memmove(to, from, bytes);
}

struct Call {
    dim3 grid, block;
    std::size_t shared;
    void* stream;
};
thread_local Call call;

int attribute_of(cudaDeviceAttr which) {
    switch (which) {
        case cudaDevAttrMaxThreadsPerBlock: return 1024;
        case cudaDevAttrMaxBlockDimX:
        case cudaDevAttrMaxBlockDimY: return 1024;
        case cudaDevAttrMaxBlockDimZ: return 64;
        case cudaDevAttrMaxGridDimX: return 2147483647;
        case cudaDevAttrMaxGridDimY:
        case cudaDevAttrMaxGridDimZ: return 65535;
        case cudaDevAttrMaxSharedMemoryPerBlock: return 49152;
        case cudaDevAttrTotalConstantMemory: return 65536;
        case cudaDevAttrWarpSize: return 32;
        case cudaDevAttrMaxRegistersPerBlock:
        case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
        case cudaDevAttrClockRate: return 1980000;
        case cudaDevAttrMultiProcessorCount: return 132;
        case cudaDevAttrL2CacheSize: return 50 << 20;
        case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
        case cudaDevAttrUnifiedAddressing: return 1;
        case cudaDevAttrComputeCapabilityMajor: return 9;
        case cudaDevAttrComputeCapabilityMinor: return 0;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 233472;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: return 232448;
        case cudaDevAttrMaxBlocksPerMultiprocessor: return 32;
        case cudaDevAttrCooperativeLaunch: return 1;
        case cudaDevAttrReservedSharedMemoryPerBlock: return 1024;
        case cudaDevAttrMemoryPoolsSupported: return 1;
        default: return 0;
    }
}

}  // namespace

// ---- device

ANSWER cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, cudaSuccess; }
ANSWER cudaError_t cudaGetDevice(int* n) { return *n = 0, cudaSuccess; }
ANSWER cudaError_t cudaSetDevice(int) { return cudaSuccess; }
ANSWER cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
    return *value = attribute_of(which), cudaSuccess;
}
ANSWER cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
    std::memset(p, 0, sizeof *p);
    std::strcpy(p->name, "NVIDIA H100 80GB HBM3 (pretended)");
    p->totalGlobalMem = capacity();
    p->sharedMemPerBlock = 49152;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->memPitch = 2147483647;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 65536;
    p->major = 9;
    p->textureAlignment = 512;
    p->texturePitchAlignment = 32;
    p->multiProcessorCount = 132;
    p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = p->cooperativeLaunch = 1;
    p->asyncEngineCount = 3;
    p->memoryBusWidth = 5120;
    p->l2CacheSize = 50 << 20;
    p->maxThreadsPerMultiProcessor = 2048;
    p->streamPrioritiesSupported = p->memoryPoolsSupported = p->clusterLaunch = 1;
    p->sharedMemPerMultiprocessor = 233472;
    p->sharedMemPerBlockOptin = 232448;
    p->reservedSharedMemPerBlock = 1024;
    p->maxBlocksPerMultiProcessor = 32;
    return cudaSuccess;
}
ANSWER cudaError_t cudaDriverGetVersion(int* v) { return *v = CUDART_VERSION, cudaSuccess; }
ANSWER cudaError_t cudaRuntimeGetVersion(int* v) { return *v = CUDART_VERSION, cudaSuccess; }
ANSWER cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return *least = 0, *greatest = -5, cudaSuccess;
}
ANSWER cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int) {
    return std::snprintf(id, static_cast<std::size_t>(bytes), "0000:01:00.0"), cudaSuccess;
}
ANSWER cudaError_t cudaDeviceSynchronize() { return host_waits(), cudaSuccess; }
ANSWER cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
ANSWER cudaError_t cudaGetLastError() {
    const auto found = last;
    return last = cudaSuccess, found;
}
ANSWER cudaError_t cudaPeekAtLastError() { return last; }
ANSWER const char* cudaGetErrorString(cudaError_t e) {
    return e == cudaErrorMemoryAllocation ? "out of memory" : "error of the pretended GPU";
}
ANSWER const char* cudaGetErrorName(cudaError_t e) {
    return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
}

// ---- memory

ANSWER cudaError_t cudaMalloc(void** at, std::size_t bytes) {
    const std::lock_guard<std::mutex> hold(lock);
    if (taken + bytes > capacity()) return fails(cudaErrorMemoryAllocation);
    const auto address = new_addresses(bytes);
    pieces[address] = bytes;
    taken += bytes;
    return *at = reinterpret_cast<void*>(address), cudaSuccess;
}
ANSWER cudaError_t cudaFree(void* at) {
    const std::lock_guard<std::mutex> hold(lock);
    const auto found = pieces.find(reinterpret_cast<std::uintptr_t>(at));
    if (found != pieces.end()) taken -= found->second, pieces.erase(found);
    return host_waits(), cudaSuccess;
}
ANSWER cudaError_t cudaMallocAsync(void** at, std::size_t bytes, cudaStream_t) {
    return cudaMalloc(at, bytes);
}
ANSWER cudaError_t cudaFreeAsync(void* at, cudaStream_t) { return cudaFree(at); }
ANSWER cudaError_t cudaMallocManaged(void** at, std::size_t bytes, unsigned) {
    return *at = std::calloc(1, bytes), cudaSuccess;
}
ANSWER cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) {
    const std::lock_guard<std::mutex> hold(lock);
    return *all = capacity(), *left = capacity() - taken, cudaSuccess;
}
ANSWER cudaError_t cudaHostAlloc(void** at, std::size_t bytes, unsigned) {
    const std::lock_guard guard(lock);
    *at = std::calloc(1, bytes);
    pinned[reinterpret_cast<std::uintptr_t>(*at)] = bytes;
    return cudaSuccess;
}
ANSWER cudaError_t cudaFreeHost(void* at) {
    const std::lock_guard guard(lock);
    pinned.erase(reinterpret_cast<std::uintptr_t>(at));
    return std::free(at), cudaSuccess;
}
ANSWER cudaError_t cudaMemcpy(void* to, const void* from, std::size_t n, cudaMemcpyKind) {
    return bring(to, from, n), host_waits(), cudaSuccess;
}
ANSWER cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t n, cudaMemcpyKind,
                                   cudaStream_t) {
    return bring(to, from, n), cudaSuccess;
}
ANSWER cudaError_t cudaMemcpy2DAsync(void* to, std::size_t pitch, const void*, std::size_t,
                                     std::size_t width, std::size_t height, cudaMemcpyKind,
                                     cudaStream_t) {
    if (!on_device(to))
        for (std::size_t i = 0; i < height; ++i)
            std::memset(static_cast<char*>(to) + i * pitch, 0, width);
    return cudaSuccess;
}
ANSWER cudaError_t cudaMemset(void*, int, std::size_t) { return cudaSuccess; }
ANSWER cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t) { return cudaSuccess; }
ANSWER cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* at) {
    std::memset(a, 0, sizeof *a);
    const std::lock_guard guard(lock);
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const auto behind = pinned.upper_bound(address);
    const bool is_pinned =
        behind != pinned.begin() && address < std::prev(behind)->first + std::prev(behind)->second;
    a->type = on_device(at) ? cudaMemoryTypeDevice
              : is_pinned   ? cudaMemoryTypeHost
                            : cudaMemoryTypeUnregistered;
    a->devicePointer = on_device(at) ? const_cast<void*>(at) : nullptr;
    a->hostPointer = const_cast<void*>(at);
    return cudaSuccess;
}
ANSWER cudaError_t cudaGetSymbolAddress(void** at, const void* symbol) {
    return *at = const_cast<void*>(symbol), cudaSuccess;
}

// ---- streams and events

ANSWER cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int) {
    return *s = reinterpret_cast<cudaStream_t>(std::calloc(1, 64)), cudaSuccess;
}
ANSWER cudaError_t cudaStreamCreate(cudaStream_t* s) {
    return cudaStreamCreateWithPriority(s, 0, 0);
}
ANSWER cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
    return cudaStreamCreateWithPriority(s, 0, 0);
}
ANSWER cudaError_t cudaStreamGetPriority(cudaStream_t, int* p) { return *p = 0, cudaSuccess; }
ANSWER cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* s) {
    return *s = cudaStreamCaptureStatusNone, cudaSuccess;
}
ANSWER cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* s,
                                            unsigned long long* id, cudaGraph_t*,
                                            const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                            std::size_t*) {
    *s = cudaStreamCaptureStatusNone;
    if (id) *id = 0;
    return cudaSuccess;
}
ANSWER cudaError_t cudaStreamQuery(cudaStream_t) {
    return late() && everything.done < everything.issued ? cudaErrorNotReady : cudaSuccess;
}
ANSWER cudaError_t cudaStreamSynchronize(cudaStream_t) { return host_waits(), cudaSuccess; }
ANSWER cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
    return *e = reinterpret_cast<cudaEvent_t>(new Event), cudaSuccess;
}
ANSWER cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
ANSWER cudaError_t cudaEventDestroy(cudaEvent_t e) {
    return delete reinterpret_cast<Event*>(e), cudaSuccess;
}
ANSWER cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t, unsigned) {
    return reinterpret_cast<Event*>(e)->at = ++everything.issued, cudaSuccess;
}
ANSWER cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    return cudaEventRecordWithFlags(e, s, 0);
}
ANSWER cudaError_t cudaEventQuery(cudaEvent_t e) {
    const bool waits = late() && reinterpret_cast<Event*>(e)->at > everything.done;
    return waits ? cudaErrorNotReady : cudaSuccess;
}
ANSWER cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    const auto at = reinterpret_cast<Event*>(e)->at;
    if (everything.done < at) everything.done = at;
    return cudaSuccess;
}
ANSWER cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
    return *ms = 1, cudaSuccess;
}

// ---- kernels

ANSWER void** __cudaRegisterFatBinary(void*) {
    return static_cast<void**>(std::calloc(1, sizeof(void*)));
}
ANSWER void __cudaRegisterFatBinaryEnd(void**) {}
ANSWER void __cudaUnregisterFatBinary(void**) {}
ANSWER void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*,
                                   dim3*, dim3*, int*) {}
ANSWER void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
ANSWER char __cudaInitModule(void**) { return 1; }
ANSWER unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                            void* stream) {
    return call = {grid, block, shared, stream}, 0;
}
ANSWER cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared,
                                              void* stream) {
    *grid = call.grid, *block = call.block, *shared = call.shared;
    return *static_cast<void**>(stream) = call.stream, cudaSuccess;
}
ANSWER cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* entry) {
    return *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(entry)), cudaSuccess;
}
ANSWER cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
    return cudaSuccess;
}
ANSWER cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) {
    std::memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 1024;
    a->numRegs = 32;
    a->ptxVersion = a->binaryVersion = 90;
    a->maxDynamicSharedSizeBytes = 49152;
    return cudaSuccess;
}
ANSWER cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void*,
                                                                          int threads, std::size_t,
                                                                          unsigned) {
    return *n = std::max(1, std::min(32, 2048 / std::max(threads, 1))), cudaSuccess;
}
ANSWER cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int threads,
                                                                 std::size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, threads, shared, 0);
}

// ---- the driver, as far as it is asked (expandable segments)

ANSWER CUresult cuMemAddressReserve(CUdeviceptr* at, std::size_t bytes, std::size_t, CUdeviceptr,
                                    unsigned long long) {
    const std::lock_guard<std::mutex> hold(lock);
    return *at = new_addresses(bytes), CUDA_SUCCESS;
}
ANSWER CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                            const CUmemAllocationProp*, unsigned long long) {
    const std::lock_guard<std::mutex> hold(lock);
    if (taken + bytes > capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
    taken += bytes;
    const auto made = std::malloc(sizeof bytes);
    std::memcpy(made, &bytes, sizeof bytes);
    return *handle = reinterpret_cast<CUmemGenericAllocationHandle>(made), CUDA_SUCCESS;
}
ANSWER CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    const std::lock_guard<std::mutex> hold(lock);
    std::size_t bytes = 0;
    std::memcpy(&bytes, reinterpret_cast<void*>(handle), sizeof bytes);
    taken -= bytes;
    return std::free(reinterpret_cast<void*>(handle)), CUDA_SUCCESS;
}
ANSWER CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                              CUmemAllocationGranularity_flags) {
    return *bytes = 1 << 21, CUDA_SUCCESS;
}
ANSWER CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
    return *flags = 0, *active = 1, CUDA_SUCCESS;
}
ANSWER CUresult cuCtxGetCurrent(CUcontext* c) {
    static char context[64];
    return *c = reinterpret_cast<CUcontext>(context), CUDA_SUCCESS;
}
ANSWER CUresult cuGetErrorString(CUresult, const char** said) {
    return *said = "error of the pretended GPU", CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
    return *value = attribute_of(static_cast<cudaDeviceAttr>(which)), CUDA_SUCCESS;
}
namespace {
CUresult does_nothing() { return CUDA_SUCCESS; }
}  // namespace
ANSWER cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                    unsigned long long,
                                                    cudaDriverEntryPointQueryResult* found) {
    if (found) *found = cudaDriverEntryPointSuccess;
    const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
#define GIVES(f) \
    if (is(#f)) return *function = reinterpret_cast<void*>(&f), cudaSuccess;
    GIVES(cuMemAddressReserve)
    GIVES(cuMemCreate)
    GIVES(cuMemRelease)
    GIVES(cuMemGetAllocationGranularity)
    GIVES(cuDevicePrimaryCtxGetState)
    GIVES(cuCtxGetCurrent)
    GIVES(cuGetErrorString)
    GIVES(cuDeviceGetAttribute)
#undef GIVES
    return *function = reinterpret_cast<void*>(&does_nothing), cudaSuccess;
}

// ---- libraries: handles that are not null, versions, one algorithm found

namespace {
template <typename T>
int gives_handle(T* handle) {
    return *handle = reinterpret_cast<T>(std::calloc(1, 4096)), 0;
}
}  // namespace
ANSWER int cublasCreate_v2(void** h) { return gives_handle(h); }
ANSWER int cublasLtCreate(void** h) { return gives_handle(h); }
ANSWER int cublasLtMatmulDescCreate(void** h, int, int) { return gives_handle(h); }
ANSWER int cublasLtMatrixLayoutCreate(void** h, int, std::uint64_t, std::uint64_t, std::int64_t) {
    return gives_handle(h);
}
ANSWER int cublasLtMatmulPreferenceCreate(void** h) { return gives_handle(h); }
ANSWER int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int,
                                          void* results, int* n) {
    return std::memset(results, 0, 64), *n = 1, 0;
}
ANSWER int cublasLtMatmulDescDestroy(void* h) { return std::free(h), 0; }
ANSWER int cublasLtMatrixLayoutDestroy(void* h) { return std::free(h), 0; }
ANSWER int cublasLtMatmulPreferenceDestroy(void* h) { return std::free(h), 0; }
ANSWER int cublasGetMathMode(void*, int* mode) { return *mode = 0, 0; }
ANSWER int cublasGetPointerMode_v2(void*, int* mode) { return *mode = 0, 0; }
ANSWER cudnnStatus_t cudnnCreate(cudnnHandle_t* h) { return gives_handle(h), CUDNN_STATUS_SUCCESS; }
// One engine for every graph, without a workspace of its own: what cuDNN's frontend (inside
// libtorch_cuda) adds is real.
ANSWER cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t,
                                                  cudnnBackendDescriptor_t* d) {
    return gives_handle(d), CUDNN_STATUS_SUCCESS;
}
ANSWER cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
    return std::free(d), CUDNN_STATUS_SUCCESS;
}
ANSWER cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, std::int64_t asked,
                                              std::int64_t* count, void* values) {
    const bool number = type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_INT32;
    const bool one =
        number || name == CUDNN_ATTR_ENGINEHEUR_RESULTS || name == CUDNN_ATTR_ENGINECFG_ENGINE;
    if (count) *count = one;
    if (number && asked > 0 && values) std::memset(values, 0, type == CUDNN_TYPE_INT64 ? 8 : 4);
    return CUDNN_STATUS_SUCCESS;
}
ANSWER std::size_t cudnnGetVersion() { return 91900; }
ANSWER cudnnStatus_t cudnnGetProperty(libraryPropertyType which, int* value) {
    return *value = which == MAJOR_VERSION   ? 9
                    : which == MINOR_VERSION ? 19
                                             : 0,
           CUDNN_STATUS_SUCCESS;
}
ANSWER std::size_t cudnnGetCudartVersion() { return CUDART_VERSION; }
ANSWER const char* cudnnGetErrorString(cudnnStatus_t) { return "error of the pretended cuDNN"; }
ANSWER int cusparseCreate(void** h) { return gives_handle(h); }
ANSWER int cusolverDnCreate(void** h) { return gives_handle(h); }
ANSWER int ncclGetVersion(int* v) { return *v = 22809, 0; }
ANSWER const char* ncclGetErrorString(int) { return "error of the pretended NCCL"; }
ANSWER const char* ncclGetLastError(void*) { return ""; }

// Kernels that PyTorch compiles as it runs: empty ones.
ANSWER int nvrtcVersion(int* major, int* minor) {
    return *major = CUDART_VERSION / 1000, *minor = CUDART_VERSION % 1000 / 10, 0;
}
ANSWER int nvrtcGetCUBINSize(void*, std::size_t* bytes) { return *bytes = 8, 0; }
ANSWER int nvrtcGetPTXSize(void*, std::size_t* bytes) { return *bytes = 8, 0; }
ANSWER int nvrtcGetProgramLogSize(void*, std::size_t* bytes) { return *bytes = 1, 0; }
ANSWER int nvrtcGetLoweredName(void*, const char*, const char** name) {
    return *name = "kernel", 0;
}
ANSWER const char* nvrtcGetErrorString(int) { return "error of the pretended NVRTC"; }
