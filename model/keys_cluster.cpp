// Keys of [cluster]; a cluster file holds the same ones without "cluster.".
#include "model/keys.h"

namespace stepcast {
namespace {

using E = Experiment;
using C = Cluster;
using G = Gpu;
using L = Link;
using K = KernelCosts;
using H = HostCosts;

constexpr double longest = 1e4;                        // seconds
constexpr double fastest = 1e18;                       // bytes/s
constexpr double least_share = 1e-4, most_share = 10;  // of a datasheet rate

const Key table[] = {
    {"cluster.preset", PresetField{PresetKind::cluster}, "cluster to start from: a preset's name or a file"},
    {"cluster.name", field<&E::cluster, &C::name>, "name in reports"},
    {"cluster.source", field<&E::cluster, &C::source>, "where the datasheet values come from"},
    {"cluster.nodes", field<&E::cluster, &C::nodes>, "nodes", 1, 1 << 17},
    {"cluster.gpus_per_node", field<&E::cluster, &C::gpus_per_node>, "ranks of a node", 1, 1024},
    {"cluster.launch_blocking", field<&E::cluster, &C::launch_blocking>, "the host waits for every kernel"},
    {"cluster.fabric", field<&E::cluster, &C::fabric>, "how the ranks of a node reach each other"},

    {"cluster.gpu.name", field<&E::cluster, &C::gpu, &G::name>, "device"},
    {"cluster.gpu.sms", field<&E::cluster, &C::gpu, &G::sms>, "streaming multiprocessors, or cores of a rank", 1,
     100000},
    {"cluster.gpu.memory", field<&E::cluster, &C::gpu, &G::memory>, "device memory", 1, 1e15},
    {"cluster.gpu.memory_bandwidth", field<&E::cluster, &C::gpu, &G::memory_bandwidth>, "memory bandwidth, datasheet",
     1, fastest},
    {"cluster.gpu.peak.fp32", field<&E::cluster, &C::gpu, &G::fp32>, "dense peak; 0 = none"},
    {"cluster.gpu.peak.tf32", field<&E::cluster, &C::gpu, &G::tf32>, "dense peak; 0 = none"},
    {"cluster.gpu.peak.fp16", field<&E::cluster, &C::gpu, &G::fp16>, "dense peak; 0 = none"},
    {"cluster.gpu.peak.bf16", field<&E::cluster, &C::gpu, &G::bf16>, "dense peak; 0 = none"},
    {"cluster.gpu.peak.fp8", field<&E::cluster, &C::gpu, &G::fp8>, "dense peak; 0 = none"},

    {"cluster.network.nics", field<&E::cluster, &C::network, &Network::nics>, "NICs of a node; 0 = one a rank", 0, 1024},
    {"cluster.network.rails", field<&E::cluster, &C::network, &Network::rails>,
     "NIC i of every node meets on a leaf of its own"},
    {"cluster.network.nodes_per_leaf", field<&E::cluster, &C::network, &Network::nodes_per_leaf>,
     "nodes that meet below the spine", 1, 1 << 17},
    {"cluster.network.oversubscription", field<&E::cluster, &C::network, &Network::oversubscription>,
     "how many times too few links go to the spine", 0.1, 1000},

    {"cluster.link.intra.bandwidth", field<&E::cluster, &C::intra, &L::bandwidth>, "per rank and direction in a node",
     0, fastest},
    {"cluster.link.intra.ring_efficiency", field<&E::cluster, &C::intra, &L::ring_efficiency>,
     "share of the bandwidth that ring collectives reach", 1e-3, 1},
    {"cluster.link.intra.pair_bandwidth", field<&E::cluster, &C::intra, &L::pair_bandwidth>,
     "nvlink_pairs: between the two ranks of a pair", 0, fastest},
    {"cluster.link.intra.nvls_efficiency", field<&E::cluster, &C::intra, &L::nvls_efficiency>,
     "reduction in the switch: share of the bandwidth reached; 0 = none", 0, 2},
    {"cluster.link.intra.all_to_all_efficiency", field<&E::cluster, &C::intra, &L::all_to_all_efficiency>,
     "share of the bandwidth that grouped sends and receives reach", 1e-3, 1},
    {"cluster.link.intra.launch", field<&E::cluster, &C::intra, &L::launch>, "fixed cost of a collective call", 0, longest},
    {"cluster.link.intra.latency", field<&E::cluster, &C::intra, &L::latency>, "one message round", 0, longest},
    {"cluster.link.intra.all_reduce", field<&E::cluster, &C::intra, &L::all_reduce>, "measured bytes and times"},
    {"cluster.link.intra.all_gather", field<&E::cluster, &C::intra, &L::all_gather>, "measured bytes and times"},
    {"cluster.link.intra.reduce_scatter", field<&E::cluster, &C::intra, &L::reduce_scatter>,
     "measured bytes and times"},
    {"cluster.link.intra.broadcast", field<&E::cluster, &C::intra, &L::broadcast>, "measured bytes and times"},
    {"cluster.link.intra.reduce", field<&E::cluster, &C::intra, &L::reduce>, "measured bytes and times"},
    {"cluster.link.intra.all_to_all", field<&E::cluster, &C::intra, &L::all_to_all>, "measured bytes and times"},
    {"cluster.link.intra.send_recv", field<&E::cluster, &C::intra, &L::send_recv>, "measured bytes and times"},
    {"cluster.link.inter.bandwidth", field<&E::cluster, &C::inter, &L::bandwidth>,
     "of one NIC and direction", 0, fastest},
    {"cluster.link.inter.ring_efficiency", field<&E::cluster, &C::inter, &L::ring_efficiency>,
     "share of the bandwidth that ring collectives reach", 1e-3, 1},
    {"cluster.link.inter.nvls_efficiency", field<&E::cluster, &C::inter, &L::nvls_efficiency>,
     "reduction in the switch: share of the bandwidth reached; 0 = none", 0, 2},
    {"cluster.link.inter.all_to_all_efficiency", field<&E::cluster, &C::inter, &L::all_to_all_efficiency>,
     "share of the bandwidth that grouped sends and receives reach", 1e-3, 1},
    {"cluster.link.inter.launch", field<&E::cluster, &C::inter, &L::launch>, "fixed cost of a collective call", 0, longest},
    {"cluster.link.inter.latency", field<&E::cluster, &C::inter, &L::latency>, "one message round", 0, longest},
    {"cluster.link.inter.all_reduce", field<&E::cluster, &C::inter, &L::all_reduce>, "measured bytes and times"},
    {"cluster.link.inter.all_gather", field<&E::cluster, &C::inter, &L::all_gather>, "measured bytes and times"},
    {"cluster.link.inter.reduce_scatter", field<&E::cluster, &C::inter, &L::reduce_scatter>,
     "measured bytes and times"},
    {"cluster.link.inter.broadcast", field<&E::cluster, &C::inter, &L::broadcast>, "measured bytes and times"},
    {"cluster.link.inter.reduce", field<&E::cluster, &C::inter, &L::reduce>, "measured bytes and times"},
    {"cluster.link.inter.all_to_all", field<&E::cluster, &C::inter, &L::all_to_all>, "measured bytes and times"},
    {"cluster.link.inter.send_recv", field<&E::cluster, &C::inter, &L::send_recv>, "measured bytes and times"},

    {"cluster.kernel.launch", field<&E::cluster, &C::kernel, &K::launch>, "fixed device-side cost of a kernel", 0,
     longest},
    {"cluster.kernel.gemm_efficiency", field<&E::cluster, &C::kernel, &K::gemm_efficiency>,
     "share of the peak in a full wave of the best tile", least_share, most_share},
    {"cluster.kernel.gemm_k0", field<&E::cluster, &C::kernel, &K::gemm_k0>,
     "fill and drain of the k loop, in k elements", 0, 1e6},
    {"cluster.kernel.gemm_tile_256", field<&E::cluster, &C::kernel, &K::gemm_tile_256>,
     "rate of a 256x128 tile relative to the best", least_share, most_share},
    {"cluster.kernel.gemm_tile_128", field<&E::cluster, &C::kernel, &K::gemm_tile_128>, "128x128 tile", least_share,
     most_share},
    {"cluster.kernel.gemm_tile_64", field<&E::cluster, &C::kernel, &K::gemm_tile_64>, "128x64 tile", least_share,
     most_share},
    {"cluster.kernel.gemm_tile_32", field<&E::cluster, &C::kernel, &K::gemm_tile_32>, "64x64 tile", least_share,
     most_share},
    {"cluster.kernel.memory_efficiency", field<&E::cluster, &C::kernel, &K::memory_efficiency>,
     "share of the memory bandwidth in memory passes", least_share, most_share},
    {"cluster.kernel.fused_ramp", field<&E::cluster, &C::kernel, &K::fused_ramp>,
     "fused expert kernel: start, before the first wave", 0, longest},
    {"cluster.kernel.fused_efficiency", field<&E::cluster, &C::kernel, &K::fused_efficiency>,
     "fused expert kernel: share of the peak in a wave", least_share, most_share},
    {"cluster.kernel.fused_tail", field<&E::cluster, &C::kernel, &K::fused_tail>,
     "fused expert kernel: left after the last remote row", 0, longest},
    {"cluster.kernel.fused_scatter_exposed", field<&E::cluster, &C::kernel, &K::fused_scatter_exposed>,
     "fused expert kernel: share of remote writes not hidden by compute", 0, 1},
    {"cluster.kernel.wgrad_efficiency", field<&E::cluster, &C::kernel, &K::wgrad_efficiency>,
     "share of the peak in weight gradients over block lists", least_share, most_share},
    {"cluster.kernel.transpose_efficiency", field<&E::cluster, &C::kernel, &K::transpose_efficiency>,
     "share of the memory bandwidth in weight transposes", least_share, most_share},
    {"cluster.kernel.training_gemm", field<&E::cluster, &C::kernel, &K::training_gemm>,
     "rate of a GEMM inside a transformer step relative to the law", least_share, most_share},
    {"cluster.kernel.attention_efficiency", field<&E::cluster, &C::kernel, &K::attention_efficiency>,
     "share of the peak in flash attention forward", least_share, most_share},
    {"cluster.kernel.attention_backward_efficiency", field<&E::cluster, &C::kernel, &K::attention_backward_efficiency>,
     "share of the peak in flash attention backward", least_share, most_share},
    {"cluster.kernel.optimizer_efficiency", field<&E::cluster, &C::kernel, &K::optimizer_efficiency>,
     "share of the memory bandwidth in optimizer passes", least_share, most_share},
    {"cluster.kernel.gemm_table", field<&E::cluster, &C::kernel, &K::gemm_table>,
     "measured shapes, used before the law"},
    {"cluster.kernel.memory_curve", field<&E::cluster, &C::kernel, &K::memory_curve>,
     "measured memory passes, bytes read and written"},

    {"cluster.host.call", field<&E::cluster, &C::host, &H::call>, "issue one kernel", 0, longest},
    {"cluster.host.framework", field<&E::cluster, &C::host, &H::framework>, "one framework operation", 0, longest},
    {"cluster.host.module_forward", field<&E::cluster, &C::host, &H::module_forward>, "one module call in forward", 0,
     longest},
    {"cluster.host.module_backward", field<&E::cluster, &C::host, &H::module_backward>, "one module call in backward",
     0, longest},
    {"cluster.host.exchange_setup", field<&E::cluster, &C::host, &H::exchange_setup>, "one group of sends and receives",
     0, longest},
    {"cluster.host.schedule", field<&E::cluster, &C::host, &H::schedule>,
     "host-side scheduler of faster_moe and mix_moe, once a pass", 0, longest},
    {"cluster.host.assignment", field<&E::cluster, &C::host, &H::assignment>,
     "block lists of mix_moe, the part that a step waits for", 0, longest},

    {"cluster.interference.compute_slowdown", field<&E::cluster, &C::interference, &Interference::compute_slowdown>,
     "a kernel beside communication takes so much longer", 0, 10},
    {"cluster.interference.communication_slowdown",
     field<&E::cluster, &C::interference, &Interference::communication_slowdown>,
     "communication beside a kernel takes so much longer", 0, 10},
    {"cluster.overheads.context", field<&E::cluster, &C::overheads, &MemoryOverheads::context>,
     "memory of the CUDA context and libraries", 0, 1e15},
    {"cluster.overheads.fragmentation", field<&E::cluster, &C::overheads, &MemoryOverheads::fragmentation>,
     "share of the tensors' memory that the allocator loses", 0, 1},

    {"cluster.noise.op", field<&E::cluster, &C::noise, &Noise::op>,
     "standard deviation of the logarithm, per task and step", 0, 2},
    {"cluster.noise.step", field<&E::cluster, &C::noise, &Noise::step>,
     "standard deviation of the logarithm, common to a run", 0, 2},
};

}  // namespace

std::span<const Key> cluster_keys() { return table; }

}  // namespace stepcast
