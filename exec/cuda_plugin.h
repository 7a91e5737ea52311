// The CUDA device, which lives in libexec_cuda.so and is opened when it is asked for: the program itself starts on
// machines without GPU, driver or toolkit.
#pragma once

#include <memory>

#include "exec/device.h"

namespace stepcast {

struct CudaRequest {
    int ranks = 0;       // 0 = as many as there are GPUs or processes
    bool graph = false;  // replay each step as a CUDA graph
    std::uint64_t seed = 1;
};

// What a calibration states of the GPU it measured: rank 0's.
struct CudaGpu {
    std::string name;
    int multiprocessors = 0;
    int capability = 0;  // 90 for 9.0
    Bytes memory, cache;
    BytesPerSecond memory_bandwidth;  // from bus width and memory clock; 0 when the driver does not say
};

struct CudaDeviceAndGpu {
    std::unique_ptr<Device> device;
    CudaGpu gpu;
};

// Throws DeviceError beginning with "no CUDA device: " when plugin, driver or GPU is missing, or when the driver is
// older than the toolkit; ConfigError when the ranks do not fit this machine or the launcher's processes.
CudaDeviceAndGpu open_cuda_device(const CudaRequest& request);

// What the plugin exports under this name, as extern "C".
using OpenCudaDevice = void(const CudaRequest& request, CudaDeviceAndGpu& result);
inline constexpr const char* open_cuda_device_symbol = "stepcast_open_cuda_device";

}  // namespace stepcast
