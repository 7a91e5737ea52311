// GPUs as a device: ranks are threads of this process, one for each GPU, or processes that a
// launcher started.
#pragma once

#include "exec/cuda_plugin.h"
#include "exec/launcher.h"

namespace stepcast {

// `gpus`: how many GPUs this process sees. Throws as open_cuda_device() (exec/cuda_plugin.h) does.
CudaDeviceAndGpu make_cuda_device(const CudaRequest& request, const Launch& launch, int gpus);

}  // namespace stepcast
