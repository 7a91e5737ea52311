// What libexec_cuda.so exports: one function, which says what is missing or opens the device.
#include <cstdlib>

#include "exec/cuda/check.h"
#include "exec/cuda/cuda_device.h"
#include "model/errors.h"

namespace stepcast {

namespace {

// cudaGetDeviceCount leaves the count alone when it fails; the driver's version is 0 where there is none.
int count_gpus() {
    int count = 0, driver = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    cudaDriverGetVersion(&driver);
    if (const std::string missing = missing_device(code, driver, CUDART_VERSION, count); !missing.empty())
        throw DeviceError("no CUDA device: " + missing);
    return count;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void stepcast_open_cuda_device(const CudaRequest& request,
                                                                                 CudaDeviceAndGpu& result) {
    const int gpus = count_gpus();
    result = make_cuda_device(request, read_launch([](const char* name) { return std::getenv(name); }), gpus);
}

}  // namespace stepcast
