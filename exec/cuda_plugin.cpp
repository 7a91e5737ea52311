#include "exec/cuda_plugin.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "exec/shared_library.h"
#include "model/base/errors.h"

namespace stepcast {

namespace {

constexpr const char* plugin_name = "libexec_cuda.so";

// Looks in $STEPCAST_HOME, else next to the program, where the build and an installation put the
// plugin. It looks nowhere else, because the loader's own search may end in a folder that others
// can write to.
SharedLibrary open_plugin() {
    namespace fs = std::filesystem;
    std::error_code error;
    if (const char* home = std::getenv("STEPCAST_HOME"); home != nullptr && *home != '\0')
        if (const fs::path own = fs::absolute(home, error) / plugin_name; fs::exists(own, error))
            return SharedLibrary(own.string());
    return SharedLibrary(
        (fs::read_symlink("/proc/self/exe", error).parent_path() / plugin_name).string());
}

}  // namespace

CudaDeviceAndGpu open_cuda_device(const CudaRequest& request) {
    const SharedLibrary plugin = open_plugin();
    if (!plugin.is_open()) {
        if (!SharedLibrary("libcuda.so.1").is_open())
            throw DeviceError("no CUDA device: driver not found, and no plugin either (" +
                              plugin.error() + ")");
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
