// Registering and launching kernels: the program names its device functions, and what runs is their
// own text compiled for the host, found by name and types.
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>

#include "tests/exec/cuda/emulation/device_code.h"
#include "tests/exec/cuda/emulation/machine.h"

using namespace emulation;

namespace {

struct Kernel {
    std::vector<std::size_t> sizes;
    RunKernel* run;
};

// By "name(types)".
std::map<std::string, Kernel>& kernels() {
    static auto& all = *new std::map<std::string, Kernel>;
    return all;
}
// What a kernel's blocks may have, where that is more than usual; by the address of its stub.
std::map<const void*, std::size_t>& allowed_shared() {
    static auto& all = *new std::map<const void*, std::size_t>;
    return all;
}
// By the address of the program's stub.
std::map<const void*, const Kernel*>& registered() {
    static auto& all = *new std::map<const void*, const Kernel*>;
    return all;
}

std::string demangled(const char* name) {
    int status = 0;
    char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    std::string result = status == 0 ? text : name;
    std::free(text);
    return result;
}

// "void stepcast::(anonymous namespace)::fill_kernel<float>(float*, unsigned long)" to
// "fill_kernel(float*, unsigned long)".
std::string signature_of(std::string function) {
    const std::string nameless = "(anonymous namespace)::";
    if (const std::size_t at = function.find(nameless); at != std::string::npos)
        function.erase(at, nameless.size());
    const std::size_t types = function.find('(');
    const std::size_t name_end = std::min(function.find('<'), types);
    std::size_t begin = function.rfind("::", name_end);
    begin = begin == std::string::npos ? 0 : begin + 2;
    return function.substr(begin, name_end - begin) + function.substr(types);
}

struct Configuration {
    dim3 grid, block;
    std::size_t shared;
    cudaStream_t stream;
};
std::vector<Configuration>& configurations() {
    thread_local std::vector<Configuration> all;
    return all;
}

bool fits(dim3 grid, dim3 block) {
    const auto size = static_cast<unsigned long>(block.x) * block.y * block.z;
    return size > 0 && size <= 1024 && block.z <= 64 && grid.x > 0 && grid.x <= 0x7fffffffU &&
           grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535;
}

// The arguments are copied now; a launch into a graph runs them again and again.
struct Arguments {
    std::vector<std::vector<char>> bytes;
    std::vector<void*> pointers;
    Arguments(const Kernel& kernel, void** given) {
        for (std::size_t i = 0; i < kernel.sizes.size(); ++i) {
            const auto* begin = static_cast<const char*>(given[i]);
            bytes.emplace_back(begin, begin + kernel.sizes[i]);
        }
        for (std::vector<char>& one : bytes) pointers.push_back(one.data());
    }
};

}  // namespace

emulation::KnownKernel::KnownKernel(const char* name, const std::type_info& types,
                                    std::vector<std::size_t> sizes, RunKernel* run) {
    const std::string pointer = demangled(types.name());  // "void (*)(float*, unsigned long)"
    kernels()[name + pointer.substr(pointer.find(")(") + 1)] = {std::move(sizes), run};
}

extern "C" {

void** __cudaRegisterFatBinary(void*) {
    static void* handle = nullptr;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* host, char*, const char* device_name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
    const std::string signature = signature_of(demangled(device_name));
    const auto found = kernels().find(signature);
    if (found == kernels().end()) {
        std::fprintf(stderr, "emulated CUDA: no kernel %s among those compiled for the host:\n",
                     signature.c_str());
        for (const auto& [name, kernel] : kernels()) std::fprintf(stderr, "  %s\n", name.c_str());
        std::abort();
    }
    registered()[host] = &found->second;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                     CUstream_st* stream) {
    configurations().push_back({grid, block, shared, stream});
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
    if (configurations().empty()) return cudaErrorMissingConfiguration;
    const Configuration last = configurations().back();
    configurations().pop_back();
    *grid = last.grid;
    *block = last.block;
    *shared = last.shared;
    *static_cast<cudaStream_t*>(stream) = last.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
    *kernel = const_cast<cudaKernel_t>(static_cast<const CUkern_st*>(host));
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
    if (registered().count(host) == 0) return note(cudaErrorInvalidDeviceFunction);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        static_cast<std::size_t>(value) > most_shared)
        return note(cudaErrorInvalidValue);
    load_first(host);
    const std::lock_guard lock(machine().mutex);
    allowed_shared()[host] = static_cast<std::size_t>(value);
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
    const auto found = registered().find(handle);
    if (found == registered().end()) return note(cudaErrorInvalidDeviceFunction);
    if (!fits(grid, block)) return note(cudaErrorInvalidConfiguration);
    {
        const std::lock_guard lock(machine().mutex);
        if (shared > std::max(usual_shared, allowed_shared()[handle]))
            return note(cudaErrorInvalidConfiguration);
        const CUstream_st* target = resolve(stream);
        if (target == nullptr || target->device != current_device())
            return note(cudaErrorInvalidResourceHandle);
    }
    const Kernel& kernel = *found->second;
    load_first(handle);
    const auto values = std::make_shared<Arguments>(kernel, arguments);
    return note(enqueue(stream, [grid, block, &kernel, values] {
        kernel.run(grid, block, values->pointers.data());
    }));
}
}
