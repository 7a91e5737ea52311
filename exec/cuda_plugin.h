// The CUDA device is in libexec_cuda.so, opened on demand, so the program starts on machines
// without GPU, driver or toolkit.
#pragma once

#include <memory>

#include "exec/device.h"

namespace stepcast {

struct CudaRequest {
    int ranks = 0;       // 0 = one for each GPU or process
    bool graph = false;  // replay each step as a CUDA graph
    std::uint64_t seed = 1;
};

// What a calibration states about the GPU of rank 0.
struct CudaGpu {
    std::string name;
    int multiprocessors = 0;
    int capability = 0;  // 90 for 9.0
    Bytes memory, cache;
    // from bus width and memory clock; 0 if the driver does not tell
    BytesPerSecond memory_bandwidth;
};

struct CudaDeviceAndGpu {
    std::unique_ptr<Device> device;
    CudaGpu gpu;
};

// Throws DeviceError that begins with "no CUDA device: " when plugin, driver or GPU is missing, or
// when the driver is older than the toolkit. Throws ConfigError when the ranks do not fit this
// machine or the launcher's processes.
CudaDeviceAndGpu open_cuda_device(const CudaRequest& request);

// The function that the plugin exports as extern "C" under the name below.
using OpenCudaDevice = void(const CudaRequest& request, CudaDeviceAndGpu& result);
inline constexpr const char* open_cuda_device_symbol = "stepcast_open_cuda_device";

}  // namespace stepcast
