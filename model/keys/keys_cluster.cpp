// Keys of [cluster]; a cluster file holds the same ones without "cluster.".
#include <deque>
#include <utility>
#include <vector>

#include "model/keys/key_values.h"

namespace stepcast {
namespace {

using C = Cluster;
using G = Gpu;
using N = Network;
using L = Link;
using P = Protocol;
using D = Dispatch;
using K = KernelCosts;
using A = AttentionKernel;
using X = ExpertKernel;
using H = HostCosts;
using I = Interference;

constexpr double longest = 1e4;                        // seconds
constexpr double fastest = 1e18;                       // bytes/s
constexpr double least_share = 1e-4, most_share = 10;  // of a datasheet rate

// Rows of one table of the file: where their paths begin, and their meanings.
struct Rows {
    std::vector<Key>& keys;
    std::string path, about;
    [[nodiscard]] Rows below(const std::string& name, const std::string& what = "") const {
        return {keys, path + name + ".", what.empty() ? about : what + ": "};
    }
};

// Keys point to their texts, which live as long as the program.
std::string_view kept(std::string text) {
    static std::deque<std::string> all;
    return all.emplace_back(std::move(text));
}

template <auto... Members>
void add(const Rows& rows, const std::string& name, const char* meaning, double least = 0, double most = Key{}.most) {
    rows.keys.push_back(
        {kept(rows.path + name), field<&Experiment::cluster, Members...>, kept(rows.about + meaning), least, most});
}

// clang-format off: a key a line
template <auto... To>
void add_protocol(const Rows& rows, const char* latency = "one message round") {
    add<To..., &P::launch>(rows, "launch", "fixed cost", 0, longest);
    add<To..., &P::latency>(rows, "latency", latency, 0, longest);
    add<To..., &P::efficiency>(rows, "efficiency", "share of the bandwidth; 0 = not used", 0, 2);
}

template <auto... To>
void add_dispatch(const Rows& rows) {
    add<To..., &D::launch>(rows, "launch", "fixed cost", 0, longest);
    add<To..., &D::efficiency>(rows, "efficiency", "share of the bandwidth; 0 = not used", 0, 3);
    add<To..., &D::row>(rows, "row", "a row costs as if it were so much longer", 0, 1e12);
    add<To..., &D::own>(rows, "own", "a token on its own rank, relative to sending it", 0, 100);
    add<To..., &D::token>(rows, "token", "what its SMs take for a token, however few bytes cross", 0, longest);
}

// `within` a node, or between nodes.
template <auto Level>
void add_link(const Rows& link, bool within) {
    add<Level, &L::bandwidth>(link, "bandwidth", within ? "per rank and direction in a node" : "of one NIC and direction", 0, fastest);
    add<Level, &L::ring_efficiency>(link, "ring_efficiency", "share of the bandwidth that ring collectives reach", 1e-3, 1);
    if (within) {
        add<Level, &L::pair_bandwidth>(link, "pair_bandwidth", "nvlink_pairs: between the two ranks of a pair", 0, fastest);
        add<Level, &L::socket_bandwidth>(link, "socket_bandwidth", "between the two sockets of a node without NVSwitch; 0 = as the other links", 0, fastest);
    }
    add<Level, &L::nvls_efficiency>(link, "nvls_efficiency", "reduction in the switch: share of the bandwidth reached; 0 = none", 0, 2);
    add<Level, &L::all_to_all_efficiency>(link, "all_to_all_efficiency", "share of the bandwidth that grouped sends and receives reach", 1e-3, 1);
    add<Level, &L::dispatch_efficiency>(link, "dispatch_efficiency", within ? "share of the bandwidth that a step's kernels dispatching tokens reach; 0 = DeepEP's law, or " "all_to_all_efficiency" : "share of the bandwidth that kernels dispatching tokens reach; 0 = as all_to_all_efficiency", 0, 1);
    add<Level, &L::launch>(link, "launch", "fixed cost of a collective call", 0, longest);
    add<Level, &L::training>(link, "training", "rate of a collective inside a transformer step relative to the law", 0.01, 10);
    add<Level, &L::latency>(link, "latency", "one message round", 0, longest);
    add<Level, &L::slot_latency>(link, "slot_latency", within ? "low_latency: more once a piece fills one slot" : "more a round, on every rank, of a ring that leaves the node", 0, longest);
    add<Level, &L::slot>(link, "slot", "low_latency: bytes of one slot", 0, 1e12);
    add<Level, &L::reduce_copy>(link, "reduce_copy", "moving a rank's own piece relative to sending it: reductions", 0, 100);
    add<Level, &L::gather_copy>(link, "gather_copy", "moving a rank's own piece relative to sending it: gathers", 0, 100);
    add<Level, &L::pipelining>(link, "pipelining", "fill of the pipeline of large messages: times sqrt(start * transfer)", 0, 100);
    add<Level, &L::nvls_launch>(link, "nvls_launch", "reduction in the switch: fixed cost", 0, longest);
    add<Level, &L::exchange_launch>(link, "exchange_launch", "all-to-all of large messages: fixed cost on top of the latency", 0, longest);
    add<Level, &L::exchange_copy>(link, "exchange_copy", "all-to-all: moving a rank's own piece relative to sending it", 0, 100);
    add<Level, &L::all_reduce>(link, "all_reduce", "measured bytes and times");
    add<Level, &L::all_gather>(link, "all_gather", "measured bytes and times");
    add<Level, &L::reduce_scatter>(link, "reduce_scatter", "measured bytes and times");
    add<Level, &L::broadcast>(link, "broadcast", "measured bytes and times");
    add<Level, &L::reduce>(link, "reduce", "measured bytes and times");
    add<Level, &L::all_to_all>(link, "all_to_all", "measured bytes and times");
    add<Level, &L::send_recv>(link, "send_recv", "measured bytes and times");
    add_protocol<Level, &L::low_latency>(link.below("low_latency", "small messages (LL)"));
    add_protocol<Level, &L::low_latency_128>(link.below("low_latency_128", "medium messages (LL128), more than two ranks"));
    add_protocol<Level, &L::exchange>(link.below("exchange", "all-to-all and sends of small messages"), "each peer");
}

template <auto... Type>
void add_narrow_gemm(const Rows& rows) {
    add<&C::kernel, Type..., &NarrowGemm::efficiency>(rows, "efficiency", "share of its peak; 0 = as 16 bits", 0, most_share);
    add<&C::kernel, Type..., &NarrowGemm::k0>(rows, "k0", "fill and drain of the k loop, in its elements", 0, 1e6);
    add<&C::kernel, Type..., &NarrowGemm::tile_reuse>(rows, "tile_reuse", "what a smaller tile loses", 0, 1e4);
    add<&C::kernel, Type..., &NarrowGemm::wave_loss>(rows, "wave_loss", "share of the last wave's idle SMs that is lost", 0, 2);
    add<&C::kernel, Type..., &NarrowGemm::cast_launch>(rows, "cast_launch", "fixed cost of the input's cast, on top of the GEMM", 0, longest);
    add<&C::kernel, Type..., &NarrowGemm::cast_bytes>(rows, "cast_bytes", "bytes an element that the cast moves; 0 = as a tensor's", 0, 1000);
    add<&C::kernel, Type..., &NarrowGemm::cast_row>(rows, "cast_row", "what a row of it costs an SM, on top of its bytes", 0, longest);
}

template <std::size_t... i>
void add_peaks(const Rows& gpu, std::index_sequence<i...>) {
    (add<&C::gpu, &G::peaks, dtypes[i].dtype>(gpu, "peak." + std::string(dtypes[i].name), "dense peak; 0 = none"), ...);
}

template <std::size_t... i>
void add_narrow_gemms(const Rows& kernel, std::index_sequence<i...>) {
    const auto of = [&]<Dtype dtype>() {
        if constexpr (is_narrow(dtype))
            add_narrow_gemm<&K::narrow, dtype>(kernel.below(std::string(to_string(dtype)), std::string(to_string(dtype)) + ", one scale a tensor"));
        if constexpr (dtype == Dtype::fp8) add_narrow_gemm<&K::fp8_blocks>(kernel.below("fp8_blocks", "fp8, scales of blocks"));
    };
    (of.template operator()<dtypes[i].dtype>(), ...);
}

void add_machine(const Rows& rows) {
    const Rows gpu = rows.below("gpu"), network = rows.below("network");
    rows.keys.push_back(
        {"cluster.preset", PresetField{PresetKind::cluster}, "cluster to start from: a preset's name or a file"});
    add<&C::name>(rows, "name", "name in reports");
    add<&C::source>(rows, "source", "where the datasheet values come from");
    add<&C::inherits>(rows, "inherits", "clusters that constants were copied from, separated by commas: what they were fitted on counts as fitted here");
    add<&C::nodes>(rows, "nodes", "nodes", 1, 1 << 17);
    add<&C::gpus_per_node>(rows, "gpus_per_node", "ranks of a node", 1, 1024);
    add<&C::launch_blocking>(rows, "launch_blocking", "the host waits for every kernel");
    add<&C::price_per_gpu_hour>(rows, "price_per_gpu_hour", "what a rank costs an hour, in any currency; 0 = not known", 0, 1e6);
    add<&C::fabric>(rows, "fabric", "how the ranks of a node reach each other");
    add<&C::gpu, &G::name>(gpu, "name", "device");
    add<&C::gpu, &G::aliases>(gpu, "aliases", "its other names in tables, separated by commas");
    add<&C::gpu, &G::sms>(gpu, "sms", "streaming multiprocessors, or cores of a rank", 1, 100000);
    add<&C::gpu, &G::memory>(gpu, "memory", "device memory", 1, 1e15);
    add<&C::gpu, &G::memory_bandwidth>(gpu, "memory_bandwidth", "memory bandwidth, datasheet", 1, fastest);
    add<&C::gpu, &G::l2>(gpu, "l2", "cache that all SMs share, datasheet; 0 = not stated", 0, 1e12);
    add_peaks(gpu, std::make_index_sequence<std::size(dtypes)>());
    add<&C::gpu, &G::rank_rates>(gpu, "rank_rates", "rate of each rank's kernels relative to the laws; empty = all alike");
    add<&C::network, &N::nics>(network, "nics", "NICs of a node; 0 = one a rank", 0, 1024);
    add<&C::network, &N::rails>(network, "rails", "NIC i of every node meets on a leaf of its own");
    add<&C::network, &N::nodes_per_leaf>(network, "nodes_per_leaf", "nodes that meet below the spine", 1, 1 << 17);
    add<&C::network, &N::oversubscription>(network, "oversubscription", "how many times too few links go to the spine", 0.1, 1000);
    add<&C::network, &N::partial_ring>(network, "partial_ring", "rings with some, not one or all, ranks of a node: share of their NICs' rate that they reach", 0.01, 1);
}

void add_links(const Rows& rows) {
    add_link<&C::intra>(rows.below("link.intra"), true);
    const auto dispatch = [&](const char* name, const char* what) {
        return rows.below("link.intra").below(name, what);
    };
    const Rows deep_ep = dispatch("dispatch", "DeepEP's dispatch and combine");
    add_dispatch<&C::intra, &L::dispatch>(deep_ep);
    add<&C::intra, &L::dispatch, &D::per_sm>(deep_ep, "per_sm", "what one SM moves; 0 = the link alone limits", 0, fastest);
    add<&C::intra, &L::dispatch, &D::sms>(deep_ep, "sms", "SMs that a training step lends", 1, 1e6);
    const Rows low_latency = dispatch("dispatch_low_latency", "DeepEP's low-latency mode");
    add_dispatch<&C::intra, &L::dispatch_low_latency>(low_latency);
    add<&C::intra, &L::dispatch_low_latency, &D::per_sm>(low_latency, "per_sm", "what one SM sends; 0 = the link alone limits", 0, fastest);
    add<&C::intra, &L::dispatch_low_latency, &D::wave>(low_latency, "wave", "one turn of all SMs, each of which serves one expert", 0, longest);
    add_dispatch<&C::intra, &L::dispatch_one_sided>(dispatch("dispatch_one_sided", "TensorRT-LLM's one-sided kernels over NVLink"));
    add_dispatch<&C::intra, &L::dispatch_two_sided>(dispatch("dispatch_two_sided", "TensorRT-LLM's two-sided kernels over NVLink"));
    add_link<&C::inter>(rows.below("link.inter"), false);
}

void add_experts_and_casts(const Rows& kernel) {
    const Rows experts = kernel.below("experts", "an expert layer alone");
    add<&C::kernel, &K::experts, &X::launch>(experts, "launch", "all launches of the layer", 0, longest);
    add<&C::kernel, &K::experts, &X::efficiency>(experts, "efficiency", "share of the peak in the grouped products", 0, most_share);
    add<&C::kernel, &K::experts, &X::k0>(experts, "k0", "fill and drain of the k loop", 0, 1e6);
    add<&C::kernel, &K::experts, &X::tile_reuse>(experts, "tile_reuse", "what a smaller tile loses", 0, 1e4);
    add<&C::kernel, &K::experts, &X::traffic>(experts, "traffic", "share of the memory bandwidth", 0, most_share);
    add<&C::kernel, &K::experts, &X::passes>(experts, "passes", "times the bytes of permutation, activation and sum", 0, 1000);
    add<&C::kernel, &K::experts, &X::tabled>(experts, "tabled", "takes the tile that Triton's default table names: 64 x 64, or 16 x 64 for no more tokens than experts; else the fastest");
    add<&C::kernel, &K::experts, &X::reloads>(experts, "reloads", "takes tiles of 64 rows at most, each of which reads its expert's weights again where the L2 does not hold them");
    const Rows cast = kernel.below("cast", "casts");
    add<&C::kernel, &K::cast, &CastCosts::launch>(cast, "launch", "launch of a cast", 0, longest);
    add<&C::kernel, &K::cast, &CastCosts::efficiency>(cast, "efficiency", "share of the memory bandwidth", least_share, most_share);
    add<&C::kernel, &K::cast, &CastCosts::cache>(cast, "cache", "casts well below find their operands in the L2", 0, 1e12);
    add<&C::kernel, &K::cast, &CastCosts::cache_gain>(cast, "cache_gain", "rate of such casts relative to memory's", 0.01, 100);
    add<&C::kernel, &K::cast, &CastCosts::row>(cast, "row", "a row with a scale of its own, on one SM", 0, longest);
    add<&C::kernel, &K::cast, &CastCosts::tensor_efficiency>(cast, "tensor_efficiency", "share of the memory bandwidth in casts that look for one scale of all elements; 0: as the others", 0, most_share);
    add<&C::kernel, &K::cast, &CastCosts::tensor_gain>(cast, "tensor_gain", "their rate in the L2 relative to memory's", 0.01, 100);
    add<&C::kernel, &K::cast, &CastCosts::tensor_written>(cast, "tensor_written", "bytes more that a byte they write takes, up to the L2's size", 0, 100);
}

void add_products(const Rows& kernel) {
    add<&C::kernel, &K::launch>(kernel, "launch", "fixed device-side cost of a kernel", 0, longest);
    add<&C::kernel, &K::gemm_efficiency>(kernel, "gemm_efficiency", "share of the peak in a full wave of the best tile", least_share, most_share);
    add<&C::kernel, &K::gemm_k0>(kernel, "gemm_k0", "fill and drain of the k loop, in k elements at the 16-bit rate: a time, so slower types lose fewer elements", 0, 1e6);
    add<&C::kernel, &K::gemm_tile_256>(kernel, "gemm_tile_256", "rate of a 256x128 tile relative to the best", least_share, most_share);
    add<&C::kernel, &K::gemm_tile_128>(kernel, "gemm_tile_128", "128x128 tile", least_share, most_share);
    add<&C::kernel, &K::gemm_tile_64>(kernel, "gemm_tile_64", "128x64 tile", least_share, most_share);
    add<&C::kernel, &K::gemm_tile_32>(kernel, "gemm_tile_32", "64x64 tile", least_share, most_share);
    add<&C::kernel, &K::gemm_tile_wide>(kernel, "gemm_tile_wide", "256x256 tile; 0 = never used", 0, most_share);
    add<&C::kernel, &K::gemm_tile_192>(kernel, "gemm_tile_192", "192x128 tile; 0 = never used", 0, most_share);
    add<&C::kernel, &K::gemm_tile_narrow>(kernel, "gemm_tile_narrow", "256x64 tile; 0 = never used", 0, most_share);
    add<&C::kernel, &K::gemm_tile_reuse>(kernel, "gemm_tile_reuse", "in place of the rates of tiles: a smaller one's is 1 / (1 + reuse (1/m + 1/n - 3/256)) of the best's", 0, 1e4);
    add<&C::kernel, &K::gemm_shared_operands>(kernel, "gemm_shared_operands", "with gemm_tile_reuse: tensor cores take operands from shared memory (Hopper, B200), so tiles have any width; else those of registers (A100, RTX)");
    add<&C::kernel, &K::gemm_reload>(kernel, "gemm_reload", "more time of tiles whose operands come from the memory again, as a share", 0, 10);
    add<&C::kernel, &K::gemm_reload_cache>(kernel, "gemm_reload_cache", "up to this size the smaller operand of a GEMM comes once", 0, 1e12);
    add<&C::kernel, &K::gemm_wave_loss>(kernel, "gemm_wave_loss", "share of the last wave's idle SMs that is lost", 0, 2);
    add<&C::kernel, &K::gemm_traffic_efficiency>(kernel, "gemm_traffic_efficiency", "share of the memory bandwidth that operands of a GEMM reach", least_share, most_share);
    add<&C::kernel, &K::gemm_corner>(kernel, "gemm_corner", "0: the longer of arithmetic and traffic; 1: their sum", 0, 1);
    add<&C::kernel, &K::gemm_split>(kernel, "gemm_split", "more for a GEMM split along k", 0, longest);
    add<&C::kernel, &K::gemm_split_traffic>(kernel, "gemm_split_traffic", "times that a split's fp32 partial result crosses the memory", 0, 100);
    add<&C::kernel, &K::gemm_boost>(kernel, "gemm_boost", "clock above the sustained one in short kernels, as a share", 0, 10);
    add<&C::kernel, &K::gemm_boost_time>(kernel, "gemm_boost_time", "how long a kernel keeps that clock", 1e-9, longest);
    add<&C::kernel, &K::gemm_unaligned>(kernel, "gemm_unaligned", "rate of a GEMM whose rows are not aligned to 8 elements", 0.01, 1);
    add<&C::kernel, &K::gemm_fp32>(kernel, "gemm_fp32", "rate of an fp32 GEMM relative to the law", least_share, most_share);
    add<&C::kernel, &K::gemm_nn>(kernel, "gemm_nn", "rate of an input gradient's layout relative to the forward's", least_share, most_share);
    add<&C::kernel, &K::gemm_tn>(kernel, "gemm_tn", "rate of a weight gradient's layout relative to the forward's", least_share, most_share);
    add<&C::kernel, &K::batched_gemm>(kernel, "batched_gemm", "rate of a batch of GEMMs in one kernel relative to one GEMM of as many tiles", least_share, most_share);
    add<&C::kernel, &K::gemm_accumulate>(kernel, "gemm_accumulate", "rate of a GEMM that adds to fp32", least_share, most_share);
    add<&C::kernel, &K::grouped_gemm>(kernel, "grouped_gemm", "rate of one kernel over groups relative to one GEMM", least_share, most_share);
    add_narrow_gemms(kernel, std::make_index_sequence<std::size(dtypes)>());
}

void add_kernels(const Rows& kernel) {
    add<&C::kernel, &K::memory_efficiency>(kernel, "memory_efficiency", "share of the memory bandwidth in memory passes", least_share, most_share);
    add<&C::kernel, &K::fused_ramp>(kernel, "fused_ramp", "fused expert kernel: start, before the first wave", 0, longest);
    add<&C::kernel, &K::fused_efficiency>(kernel, "fused_efficiency", "fused expert kernel: share of the peak in a wave", least_share, most_share);
    add<&C::kernel, &K::fused_tail>(kernel, "fused_tail", "fused expert kernel: left after the last remote row", 0, longest);
    add<&C::kernel, &K::fused_scatter_exposed>(kernel, "fused_scatter_exposed", "fused expert kernel: share of remote writes not hidden by compute", 0, 1);
    add<&C::kernel, &K::wgrad_efficiency>(kernel, "wgrad_efficiency", "share of the peak in weight gradients over block lists; 0 = by the GEMM law", 0, most_share);
    add<&C::kernel, &K::transpose_efficiency>(kernel, "transpose_efficiency", "share of the memory bandwidth in weight transposes", least_share, most_share);
    add<&C::kernel, &K::row_efficiency>(kernel, "row_efficiency", "share of the memory bandwidth in norms and softmax", least_share, most_share);
    add<&C::kernel, &K::strided_efficiency>(kernel, "strided_efficiency", "share of the memory bandwidth in permuted copies and sums over columns", least_share, most_share);
    add<&C::kernel, &K::cache>(kernel, "cache", "passes well below this find their operands in the L2; 0 = none do", 0, 1e12);
    add<&C::kernel, &K::cache_gain>(kernel, "cache_gain", "rate of such passes relative to memory's", 0.01, 100);
    add<&C::kernel, &K::event>(kernel, "event", "more that a pair of events around one kernel shows; tables only", 0, longest);
    add<&C::kernel, &K::call_ahead>(kernel, "call_ahead", "what a kernel takes at least where a script launches ahead: its host's call; tables only", 0, longest);
    add<&C::kernel, &K::training_gemm>(kernel, "training_gemm", "rate of a GEMM inside a transformer step relative to the law", least_share, most_share);
    add<&C::kernel, &K::training_fp8>(kernel, "training_fp8", "rate of an fp8 or fp4 GEMM inside a transformer step, on top of training_gemm", least_share, most_share);
    add<&C::kernel, &K::attention, &A::efficiency>(kernel, "attention_efficiency", "share of the peak in flash attention forward", least_share, most_share);
    add<&C::kernel, &K::attention_backward>(kernel, "attention_backward", "flash attention: rate of the backward relative to the forward", least_share, most_share);
    add<&C::kernel, &K::attention_v2>(kernel, "attention_v2", "rate of FlashAttention-2's products relative to the device's best kernel's; their exponentials take equally long", least_share, most_share);
    add<&C::kernel, &K::attention_triton>(kernel, "attention_triton", "the same of the kernel that Triton compiled in 2022 and 2023; 0 = attention_v2", 0, most_share);
    add<&C::kernel, &K::attention, &A::ramp>(kernel, "attention_ramp", "flash attention: tokens of a sequence at which half of the rate is reached", 0, 1e6);
    add<&C::kernel, &K::attention, &A::width>(kernel, "attention_width", "flash attention: width of a head whose products take as long as its exponentials", 0, 1e4);
    add<&C::kernel, &K::attention, &A::name>(kernel, "attention_kernel", "flash attention: which of the tables' kernels a fit takes for steps");
    add<&C::kernel, &K::attention, &A::launch>(kernel, "attention_launch", "flash attention: fixed cost; 0 = kernel.launch", 0, longest);
    add<&C::kernel, &K::attention, &A::tile>(kernel, "attention_tile", "flash attention: queries of a thread block; 0 = blocks are not counted against SMs", 0, 4096);
    add<&C::kernel, &K::attention, &A::slides>(kernel, "attention_slides", "flash attention: passes over keys that lie before a sliding window; else it masks their scores");
    add<&C::kernel, &K::attention, &A::fill>(kernel, "attention_fill", "flash attention: fixed cost of a block of queries, in keys", 0, 1e6);
    add<&C::kernel, &K::attention, &A::corner>(kernel, "attention_corner", "flash attention: 0: the longer of all blocks' work and the longest block; 1: their sum; without a mask how much of an idle last wave is lost", 0, 10);
    add<&C::kernel, &K::attention, &A::traffic>(kernel, "attention_traffic", "flash attention: times that queries and results cross the memory outside the kernel", 0, 100);
    add<&C::kernel, &K::attention, &A::cache>(kernel, "attention_cache", "flash attention: times that keys and values cross the memory outside the kernel, as where they are written to a cache", 0, 100);
    add<&C::kernel, &K::attention, &A::token>(kernel, "attention_token", "flash attention: what each token costs on top of the kernel", 0, longest);
    add<&C::kernel, &K::attention, &A::token_block>(kernel, "attention_token_block", "flash attention: elements of a token's keys at which it costs all of attention_token; 0 = whatever it has", 0, 65536);
    add<&C::kernel, &K::attention, &A::odd>(kernel, "attention_odd", "flash attention: rate where the kernel has no tiles for the width of a head (no multiple of 16; in fp8 other than 128), relative to others", least_share, most_share);
    add<&C::kernel, &K::attention, &A::fp8_efficiency>(kernel, "attention_fp8", "flash attention in fp8: share of the fp8 peak in the products", least_share, most_share);
    add<&C::kernel, &K::attention, &A::fp8_launch>(kernel, "attention_fp8_launch", "flash attention in fp8: launches of its casts", 0, longest);
    add<&C::kernel, &K::attention, &A::fp8_traffic>(kernel, "attention_fp8_traffic", "flash attention in fp8: what crosses the memory outside the kernel, relative to 16 bits", 0, 100);
    add<&C::kernel, &K::attention_kernels>(kernel, "attention_kernels", "attention by the kernels that tables name");
    add<&C::kernel, &K::expert_kernels>(kernel, "expert_kernels", "whole expert layers by the implementations that tables name");
    add<&C::kernel, &K::optimizer_efficiency>(kernel, "optimizer_efficiency", "share of the memory bandwidth in optimizer passes", least_share, most_share);
    add<&C::kernel, &K::gemm_table>(kernel, "gemm_table", "measured shapes, used before the law");
    add<&C::kernel, &K::gemm_table_by_weight>(kernel, "gemm_table_by_weight", "the table holds rows of single weights (n, k); the law answers elsewhere");
    add<&C::kernel, &K::memory_curve>(kernel, "memory_curve", "measured memory passes, bytes read and written");
}

void add_host(const Rows& host) {
    add<&C::host, &H::call>(host, "call", "issue one kernel", 0, longest);
    add<&C::host, &H::framework>(host, "framework", "one framework operation", 0, longest);
    add<&C::host, &H::module_forward>(host, "module_forward", "one module call in forward", 0, longest);
    add<&C::host, &H::module_backward>(host, "module_backward", "one module call in backward", 0, longest);
    add<&C::host, &H::layer>(host, "layer", "one pass of a transformer layer, on top of its calls", 0, longest);
    add<&C::host, &H::micro_batch>(host, "micro_batch", "one pass of a micro-batch through a stage, on top of its layers", 0, longest);
    add<&C::host, &H::exchange>(host, "exchange", "one tensor-parallel collective, on top of its call", 0, longest);
    add<&C::host, &H::exchange_setup>(host, "exchange_setup", "one group of sends and receives", 0, longest);
    add<&C::host, &H::expert_layer>(host, "expert_layer", "one pass of an expert layer whose tokens go once, on top of its calls", 0, longest);
    add<&C::host, &H::schedule>(host, "schedule", "host-side scheduler of faster_moe and mix_moe, once a pass", 0, longest);
    add<&C::host, &H::assignment>(host, "assignment", "block lists of mix_moe, the part that a step waits for", 0, longest);
    add<&C::host, &H::message>(host, "message", "one blocking message to another rank, on either side", 0, longest);
    add<&C::host, &H::read>(host, "read", "reduce a tensor to one value and wait for it", 0, longest);
    add<&C::host, &H::flatten>(host, "flatten", "flatten and unscale the gradients of a parameter group", 0, longest);
    add<&C::host, &H::update>(host, "update", "call the optimizer of a parameter group", 0, longest);
    add<&C::host, &H::gather>(host, "gather", "gather the updated parameters of a group and hand them back", 0, longest);
    add<&C::host, &H::input>(host, "input", "the next batch and what a training script does once a step", 0, longest);
    add<&C::host, &H::load>(host, "load", "all of these take so many times longer: other work on the machine's processors", 1e-3, 1000);
}

void add_noise(const Rows& noise) {
    add<&C::noise, &Noise::op>(noise, "op", "standard deviation of the logarithm, per task and step", 0, 2);
    add<&C::noise, &Noise::step>(noise, "step", "standard deviation of the logarithm, common to a step", 0, 2);
    add<&C::noise, &Noise::host>(noise, "host", "standard deviation of the logarithm of host work, common to a step", 0, 2);
    add<&C::noise, &Noise::burst_slowdown>(noise, "burst_slowdown", "kernels take so much longer in a burst", 0, 100);
    add<&C::noise, &Noise::burst_every>(noise, "burst_every", "mean time from one burst to the next; 0 = none", 0, 1e6);
    add<&C::noise, &Noise::burst_length>(noise, "burst_length", "how long a burst lasts", 0, 1e6);
    add<&C::noise, &Noise::straggler_rate>(noise, "straggler_rate", "chance that a rank is late in a step", 0, 1);
    add<&C::noise, &Noise::straggler_delay>(noise, "straggler_delay", "median lateness of a late rank", 0, longest);
    add<&C::noise, &Noise::straggler_spread>(noise, "straggler_spread", "standard deviation of the logarithm of the lateness", 0, 5);
}

void add_power(const Rows& power) {
    add<&C::power, &Power::limit>(power, "limit_w", "what the board may draw, W; 0 = not known, the clock stays up", 0, 1e5);
    add<&C::power, &Power::idle>(power, "idle_w", "what it draws idle, W", 0, 1e5);
    add<&C::power, &Power::flop>(power, "flop_pj", "energy of a floating-point operation of 16 bits at full clock, pJ", 0, 1e4);
    add<&C::power, &Power::byte>(power, "byte_pj", "energy of a byte moved to or from memory, pJ", 0, 1e6);
    add<&C::power, &Power::in_rates>(power, "in_rates", "the kernels' rates were measured at the clock that the limit leaves: it tells energy only");
    add<&C::power, &Power::response>(power, "response", "length of a repeated kernel at which half of the clock's fall has happened; tables only", 1e-9, longest);
}

void add_losses(const Rows& interference, const Rows& overheads) {
    add<&C::interference, &I::compute_slowdown>(interference, "compute_slowdown", "a kernel that overlaps communication takes so much longer", 0, 10);
    add<&C::interference, &I::communication_slowdown>(interference, "communication_slowdown", "communication that overlaps a kernel takes so much longer", 0, 10);
    add<&C::interference, &I::shared_links>(interference, "shared_links", "collectives of different kinds that cross a link at once share its bandwidth");
    add<&C::overheads, &MemoryOverheads::context>(overheads, "context", "memory of the CUDA context and libraries", 0, 1e15);
    add<&C::overheads, &MemoryOverheads::fragmentation>(overheads, "fragmentation", "share of the tensors' memory that the allocator loses", 0, 1);
}
// clang-format on

std::vector<Key> all_rows() {
    std::vector<Key> keys;
    const Rows rows{keys, "cluster.", ""};
    add_machine(rows);
    add_links(rows);
    add_products(rows.below("kernel"));
    add_experts_and_casts(rows.below("kernel"));
    add_kernels(rows.below("kernel"));
    add_power(rows.below("power"));
    add_host(rows.below("host"));
    add_losses(rows.below("interference"), rows.below("overheads"));
    add_noise(rows.below("noise"));
    return keys;
}

}  // namespace

std::span<const Key> cluster_keys() {
    static const std::vector<Key> keys = all_rows();
    return keys;
}

}  // namespace stepcast
