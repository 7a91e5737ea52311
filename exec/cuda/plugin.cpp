// The only export of libexec_cuda.so: a function that opens the device, or says what is missing.
#include <cstdlib>

#include "exec/cuda/check.h"
#include "exec/cuda/cuda_device.h"
#include "model/base/errors.h"

namespace stepcast {

namespace {

// cudaGetDeviceCount does not change the count if it fails. The driver's version is 0 if there is
// no driver.
int count_gpus() {
    int count = 0, driver = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    cudaDriverGetVersion(&driver);
    if (const std::string missing = missing_device(code, driver, CUDART_VERSION, count);
        !missing.empty())
        throw DeviceError("no CUDA device: " + missing);
    return count;
}

}  // namespace

extern "C" {

// open_cuda_device_symbol
__attribute__((visibility("default"))) void stepcast_open_cuda_device(const CudaRequest& request,
                                                                      CudaDeviceAndGpu& result);

void stepcast_open_cuda_device(const CudaRequest& request, CudaDeviceAndGpu& result) {
    const int gpus = count_gpus();
    result = make_cuda_device(
        request, read_launch([](const char* name) { return std::getenv(name); }), gpus);
}

}  // extern "C"

}  // namespace stepcast
