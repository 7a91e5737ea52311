#include "measured/kernels_by_name.h"

#include <algorithm>
#include <cmath>

#include "measured/nearest.h"
#include "measured/transfer.h"
#include "model/base/lists.h"

namespace stepcast {
namespace {

// The constants of a kernel depend on each other, so take all from the machine with the median
// efficiency.
template <class Kernel>
Kernel middle(std::vector<Kernel> kernels) {
    std::ranges::sort(kernels, {}, &Kernel::efficiency);
    return kernels[(kernels.size() - 1) / 2];
}

template <class Kernel>
const Kernel* named(const std::vector<Kernel>& kernels, const std::string& name) {
    return first_with(kernels, name, &Kernel::name);
}

template <class Kernel>
Machines with_kernel(const Machines& from, std::vector<Kernel> KernelCosts::*list,
                     const std::string& name) {
    return where(from, [&](const Cluster& c) { return named(c.kernel.*list, name) != nullptr; });
}

template <class Kernel>
void add_by_name(std::vector<Kernel>& all, const Machines& from,
                 std::vector<Kernel> KernelCosts::*list, const Gpu& to) {
    for (const Cluster& first : from)
        for (const Kernel& kernel : first.kernel.*list) {
            if (named(all, kernel.name)) continue;
            std::vector<Kernel> same;
            for (const Cluster& m : of_like_rate(with_kernel(from, list, kernel.name), to))
                same.push_back(moved(*named(m.kernel.*list, kernel.name), m.gpu, to));
            all.push_back(middle(same));
        }
}

bool has_eight_bits(const Gpu& gpu) { return gpu.peaks[Dtype::fp8] > FlopsPerSecond(0); }

}  // namespace

AttentionKernel with_eight_bits(AttentionKernel kernel, const Machines& all, const Gpu& to) {
    const Machines having = where(with_kernel(all, &KernelCosts::attention_kernels, kernel.name),
                                  [](const Cluster& c) { return has_eight_bits(c.gpu); });
    if (having.empty() || !has_eight_bits(to)) return kernel;
    std::vector<AttentionKernel> same;
    for (const Cluster& m : of_like_rate(having, to)) {
        const AttentionKernel own = *named(m.kernel.attention_kernels, kernel.name);
        AttentionKernel there = moved(own, m.gpu, to);
        const double lost = own.efficiency / own.fp8_efficiency - 1,
                     slower = rate_distance(m.gpu, to);
        there.fp8_efficiency = 1 / (1 + lost * std::exp(-slower));
        there.fp8_launch = launch_ratio(m.gpu, to) * own.fp8_launch;
        same.push_back(there);
    }
    const AttentionKernel like = middle(same);
    kernel.fp8_efficiency = kernel.efficiency * like.fp8_efficiency;
    kernel.fp8_launch = like.fp8_launch;
    kernel.fp8_traffic =
        like.fp8_traffic * (like.traffic + like.cache) / (kernel.traffic + kernel.cache);
    return kernel;
}

void lay_kernels(Cluster& cluster, const Machines& near, const Machines& all) {
    KernelCosts& kernel = cluster.kernel;
    const std::string of_steps = kernel.attention.name;
    std::vector<AttentionKernel> nearest;
    for (const Cluster& machine : near)
        if (machine.kernel.attention.tile > 0)
            nearest.push_back(moved(machine.kernel.attention, machine.gpu, cluster.gpu));
    if (!nearest.empty()) kernel.attention = middle(nearest);
    const bool shared = near.front().kernel.gemm_shared_operands;
    const Machines alike =
        where(all, [&](const Cluster& c) { return c.kernel.gemm_shared_operands == shared; });
    for (const Machines* from : {&near, &alike})
        add_by_name(kernel.attention_kernels, *from, &KernelCosts::attention_kernels, cluster.gpu);
    for (const Machines* from : {&near, &all})
        add_by_name(kernel.expert_kernels, *from, &KernelCosts::expert_kernels, cluster.gpu);
    if (!has_eight_bits(near.front().gpu))
        for (AttentionKernel& k : kernel.attention_kernels)
            k = with_eight_bits(k, all, cluster.gpu);
    if (const auto* own = named(kernel.attention_kernels, of_steps); own && !of_steps.empty())
        kernel.attention = alone(*own);
}

}  // namespace stepcast
