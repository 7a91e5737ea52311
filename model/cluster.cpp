#include "model/cluster.h"

#include "model/errors.h"

namespace stepcast {

HostCosts no_host_costs() {
    HostCosts none;
    for (Seconds HostCosts::*cost :
         {&HostCosts::call, &HostCosts::framework, &HostCosts::module_forward, &HostCosts::module_backward,
          &HostCosts::layer, &HostCosts::exchange_setup, &HostCosts::expert_layer, &HostCosts::schedule, &HostCosts::assignment,
          &HostCosts::message, &HostCosts::read, &HostCosts::flatten, &HostCosts::update, &HostCosts::gather,
          &HostCosts::input})
        none.*cost = Seconds(0);
    return none;
}

AttentionKernel alone(AttentionKernel kernel) {
    kernel.launch = kernel.token = Seconds(0);
    kernel.traffic = kernel.cache = 0;
    return kernel;
}

FlopsPerSecond peak(const Gpu& gpu, Dtype dtype) {
    if (gpu.peaks[dtype] > FlopsPerSecond(0)) return gpu.peaks[dtype];
    std::string stated;
    for (const DtypeTraits& other : dtypes)
        if (gpu.peaks[other.dtype] > FlopsPerSecond(0)) stated += (stated.empty() ? "" : ", ") + std::string(other.name);
    throw ConfigError("cluster.gpu.peak." + std::string(to_string(dtype)) + ": device \"" + gpu.name +
                      "\" has no such rate; it has " + (stated.empty() ? "none" : stated) +
                      "; set this key or choose another workload.dtype");
}

}  // namespace stepcast
