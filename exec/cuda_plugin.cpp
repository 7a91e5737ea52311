#include "exec/cuda_plugin.h"

#include <filesystem>
#include <system_error>

#include "exec/shared_library.h"
#include "model/errors.h"

namespace stepcast {

namespace {

constexpr const char* plugin_name = "libexec_cuda.so";

// Beside the program, where the build and an installation put it; else where the loader looks.
SharedLibrary open_plugin() {
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (const auto beside = program.parent_path() / plugin_name; !error && std::filesystem::exists(beside, error))
        return SharedLibrary(beside.string());
    return SharedLibrary(plugin_name);
}

}  // namespace

CudaDeviceAndGpu open_cuda_device(const CudaRequest& request) {
    const SharedLibrary plugin = open_plugin();
    if (!plugin.is_open()) {
        if (!SharedLibrary("libcuda.so.1").is_open())
            throw DeviceError("no CUDA device: driver not found, and no plugin either (" + plugin.error() + ")");
        throw DeviceError("no CUDA device: the plugin cannot be opened (" + plugin.error() +
                          "); build with -DWITH_CUDA=ON on a machine with the CUDA toolkit");
    }
    const auto open = plugin.find<OpenCudaDevice>(open_cuda_device_symbol);
    if (open == nullptr)
        throw DeviceError(std::string("no CUDA device: ") + plugin_name +
                          " is of another version of stepcast; build both together");
    CudaDeviceAndGpu result;
    open(request, result);
    return result;
}

}  // namespace stepcast
