#include "model/cluster.h"

#include "model/errors.h"
#include "model/keys/key_values.h"
#include "model/machine/libraries.h"

namespace stepcast {

HostCosts no_host_costs() {
    HostCosts none;
    each_key<HostCosts>("", [&]<auto member>(const Keyed<member>&) {
        if constexpr (requires { none.*member = Seconds(0); }) none.*member = Seconds(0);
    });
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
    const Lack* const lack = lack_of(gpu, "workload.dtype", to_string(dtype));
    throw ConfigError("cluster.gpu.peak." + std::string(to_string(dtype)) + ": device \"" + gpu.name + "\" has no such rate" +
                      (lack ? ", which begins at compute capability " + std::to_string(lack->capability) : "") + "; it has " +
                      (stated.empty() ? "none" : stated) + "; set this key or choose another workload.dtype");
}

}  // namespace stepcast
