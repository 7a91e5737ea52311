#include "model/cluster.h"

#include "model/errors.h"
#include "model/names.h"

namespace stepcast {
namespace {

constexpr std::array<Named<Fabric>, 3> fabrics{
    {{Fabric::nvswitch, "nvswitch"}, {Fabric::nvlink_pairs, "nvlink-pairs"}, {Fabric::pcie, "pcie"}}};

FlopsPerSecond rate_of(const Gpu& gpu, Dtype dtype) {
    switch (dtype) {
        case Dtype::fp32: return gpu.fp32;
        case Dtype::tf32: return gpu.tf32;
        case Dtype::fp16: return gpu.fp16;
        case Dtype::bf16: return gpu.bf16;
        case Dtype::fp8: return gpu.fp8;
        case Dtype::fp4: return gpu.fp4;
    }
    return {};
}

}  // namespace

std::string_view to_string(Fabric fabric) { return name_of(fabrics, fabric); }
Fabric parse_fabric(std::string_view text) { return value_named(fabrics, text, "a fabric"); }

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

FlopsPerSecond peak(const Gpu& gpu, Dtype dtype) {
    const auto rate = rate_of(gpu, dtype);
    if (rate > FlopsPerSecond(0)) return rate;
    std::string stated;
    for (const auto other : {Dtype::fp32, Dtype::tf32, Dtype::fp16, Dtype::bf16, Dtype::fp8, Dtype::fp4})
        if (rate_of(gpu, other) > FlopsPerSecond(0))
            stated += (stated.empty() ? "" : ", ") + std::string(to_string(other));
    throw ConfigError("cluster.gpu.peak." + std::string(to_string(dtype)) + ": device \"" + gpu.name +
                      "\" has no such rate; it has " + (stated.empty() ? "none" : stated) +
                      "; set this key or choose another workload.dtype");
}

}  // namespace stepcast
