// The machine: datasheet values, cost parameters, and what was fitted from which data. Every number here is a key of
// the cluster file, so a fit, a what-if and a preset speak of the same thing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "model/keys/keyed.h"
#include "model/units.h"

namespace stepcast {

// One measured point of a collective or of a memory pass: payload against time.
struct CurvePoint {
    Bytes bytes;
    Seconds time;
    friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};
// Ascending in bytes. Empty: use the law. Inside: linear interpolation. Beyond the last point: its slope continues.
using Curve = std::vector<CurvePoint>;

// One measured GEMM shape.
struct GemmPoint {
    long m = 0, n = 0, k = 0;
    Dtype dtype = Dtype::fp32;
    Seconds time;
    friend bool operator==(const GemmPoint&, const GemmPoint&) = default;
};

// How the ranks of a node reach each other. nvswitch: any two at full bandwidth; nvlink_pairs: ranks 2i and 2i+1 over
// `pair_bandwidth`, others over the host bridge; pcie: all through one tree of switches.
enum class Fabric : std::uint8_t { nvswitch, nvlink_pairs, pcie };
constexpr auto names_of(Fabric) {
    using enum Fabric;
    return name_table<Fabric>("a fabric", {{nvswitch, "nvswitch"}, {nvlink_pairs, "nvlink-pairs"}, {pcie, "pcie"}});
}

// The network between nodes: NICs of a node (link.inter.bandwidth is one NIC's), leaf switches of rails (NIC i of every
// node of a group) or of whole nodes, and a spine whose links are `oversubscription` times too few.
struct Network {
    KEY(int, nics, 0, "NICs of a node; 0 = one a rank", 0, 1024);
    KEY(bool, rails, true, "NIC i of every node meets on a leaf of its own");
    KEY(int, nodes_per_leaf, 32, "nodes that meet below the spine", 1, 1 << 17);
    KEY(double, oversubscription, 1, "how many times too few links go to the spine", 0.1, 1000);
    KEY(double, partial_ring, 1, "rings with some, not one or all, ranks of a node: share of their NICs' rate that they reach", 0.01, 1);
    friend bool operator==(const Network&, const Network&) = default;
};

struct Gpu {
    KEY(std::string, name, {}, "device");
    KEY(std::string, aliases, {}, "its other names in tables, separated by commas");
    KEY(int, sms, 1, "streaming multiprocessors, or cores of a rank", 1, 100000);
    KEY(Bytes, memory, {}, "device memory", 1, 1e15);
    KEY(BytesPerSecond, memory_bandwidth, {}, "memory bandwidth, datasheet", 1, upto::rate);
    KEY(Bytes, l2, {}, "cache that all SMs share, datasheet; 0 = not stated", 0, 1e12);
    KEY_NAMED(PerDtype<FlopsPerSecond>, peaks, {}, "peak.", "dense peak; 0 = none");
    KEY(std::vector<double>, rank_rates, {}, "rate of each rank's kernels relative to the laws; empty = all alike");
    friend bool operator==(const Gpu&, const Gpu&) = default;
};
FlopsPerSecond peak(const Gpu& gpu, Dtype dtype);  // throws ConfigError when the device has no such rate

// Products of operands of fewer than 16 bits. At an efficiency of 0 they run at the constants of 16 bits. `cast_launch` and
// `cast_bytes` (an element) are what a framework's linear layer does to its input before: sim/costs/cast_law.h.
struct NarrowGemm {
    KEY(double, efficiency, 0, "share of its peak; 0 = as 16 bits", 0, upto::share);
    KEY(double, k0, 300, "fill and drain of the k loop, in its elements", 0, 1e6);
    KEY(double, tile_reuse, 0, "what a smaller tile loses", 0, 1e4);
    KEY(double, wave_loss, 0.3, "share of the last wave's idle SMs that is lost", 0, 2);
    KEY(Seconds, cast_launch, {}, "fixed cost of the input's cast, on top of the GEMM", 0, upto::seconds);
    KEY(double, cast_bytes, 0, "bytes an element that the cast moves; 0 = as a tensor's", 0, 1000);
    KEY(Seconds, cast_row, {}, "what a row of it costs an SM, on top of its bytes", 0, upto::seconds);
    friend bool operator==(const NarrowGemm&, const NarrowGemm&) = default;
};

// One implementation of flash attention: sim/costs/attention_law.h. The nameless one is what steps run.
struct AttentionKernel {
    std::string name;
    Seconds launch;               // of the call, with what it launches on top of the kernel itself; 0 = kernel.launch
    double efficiency = 0.5;      // of the datasheet peak, forward, without exponentials
    double ramp = 600;            // tokens of a sequence at which half of the rate is reached; where blocks are not counted
    double width = 0;             // width of a head whose products take as long as its exponentials
    double fill = 0;              // fixed cost of a block of queries, in keys
    double corner = 0;            // 0: the longer of all blocks' work and the longest block; 1: their sum. Without a mask:
                                  // how much of an idle last wave is lost
    double traffic = 0;           // times that queries and results cross the memory outside the kernel
    double cache = 0;             // times that keys and values do
    Seconds token;                // in addition to the kernel, of each token: blocks that write it to a cache
    int token_block = 0;          // elements of a token's keys that such a block holds: fewer take less; 0 = all take the same
    double odd = 1;               // rate where it has no tiles for the width of a head, relative to others
    double fp8_efficiency = 0.5;  // of the fp8 peak, the products; exponentials take as long as in 16 bits
    Seconds fp8_launch;           // in addition: of the casts
    double fp8_traffic = 1;  // times `traffic` and `cache`, where operands are cast and what is cast is written too
    int tile = 0;  // queries of a thread block; 0 = blocks are not counted
    bool slides = true;  // passes over keys that lie before a window; else it masks their scores
    friend bool operator==(const AttentionKernel&, const AttentionKernel&) = default;
};
AttentionKernel alone(AttentionKernel kernel);  // what a step runs of it: no cache is written in training, no extra launch made

// One implementation of a whole expert layer's forward: sim/costs/expert_layer_law.h.
struct ExpertKernel {
    std::string name;
    KEY(Seconds, launch, {}, "all launches of the layer", 0, upto::seconds);
    KEY(double, efficiency, 0.7, "share of the peak in the grouped products", 0, upto::share);
    KEY(double, k0, 300, "fill and drain of the k loop", 0, 1e6);  // in elements of the operands
    KEY(double, tile_reuse, 25, "what a smaller tile loses", 0, 1e4);
    KEY(double, traffic, 0.85, "share of the memory bandwidth", 0, upto::share);  // weights and rows of the products
    KEY(double, passes, 1, "times the bytes of permutation, activation and sum", 0, 1000);
    KEY(bool, tabled, false, "takes the tile that Triton's default table names: 64 x 64, or 16 x 64 for no more tokens than experts; else the fastest");
    KEY(bool, reloads, false, "takes tiles of 64 rows at most, each of which reads its expert's weights again where the L2 does not hold them");
    friend bool operator==(const ExpertKernel&, const ExpertKernel&) = default;
};

// Casts to fp8: sim/costs/cast_law.h.
struct CastCosts {
    KEY(Seconds, launch, Seconds(2e-6), "launch of a cast", 0, upto::seconds);
    KEY(double, efficiency, 0.85, "share of the memory bandwidth", atleast::share, upto::share);
    KEY(Bytes, cache, Bytes(4e7), "casts well below find their operands in the L2", 0, 1e12);
    KEY(double, cache_gain, 1, "rate of such casts relative to memory's", 0.01, 100);
    KEY(Seconds, row, Seconds(2e-7), "a row with a scale of its own, on one SM", 0, upto::seconds);
    KEY(double, tensor_efficiency, 0, "share of the memory bandwidth in casts that look for one scale of all elements; 0: as the others", 0, upto::share);
    KEY(double, tensor_gain, 1, "their rate in the L2 relative to memory's", 0.01, 100);
    KEY(double, tensor_written, 0, "bytes more that a byte they write takes, up to the L2's size", 0, 100);
    friend bool operator==(const CastCosts&, const CastCosts&) = default;
};

// What the board may draw, and what work draws at full clock: sim/costs/clock.h. A limit of 0: not known, the clock stays up.
struct Power {
    KEY_NAMED(double, limit, 0, "limit_w", "what the board may draw, W; 0 = not known, the clock stays up", 0, 1e5);
    KEY_NAMED(double, idle, 0, "idle_w", "what it draws idle, W", 0, 1e5);
    KEY_NAMED(double, flop, 0, "flop_pj", "energy of a floating-point operation of 16 bits at full clock, pJ", 0, 1e4);
    KEY_NAMED(double, byte, 0, "byte_pj", "energy of a byte moved to or from memory, pJ", 0, 1e6);
    KEY(bool, in_rates, false, "the kernels' rates were measured at the clock that the limit leaves: it tells energy only");
    KEY(Seconds, response, Seconds(3.3e-3), "length of a repeated kernel at which half of the clock's fall has happened; tables only", 1e-9, upto::seconds);
    friend bool operator==(const Power&, const Power&) = default;
};

// Gemm: sim/costs/gemm_law.h. Fused: sim/op_costs.h. Memory passes: bytes / (efficiency * datasheet bandwidth) + launch.
// A tile's rate of 0: the library never uses it. Defaults beyond the first tiles switch their effect off.
struct KernelCosts {
    KEY(Seconds, launch, Seconds(2.4e-6), "fixed device-side cost of a kernel", 0, upto::seconds);
    KEY(double, gemm_efficiency, 0.92, "share of the peak in a full wave of the best tile", atleast::share, upto::share);
    KEY(double, gemm_k0, 149, "fill and drain of the k loop, in k elements at the 16-bit rate: a time, so slower types lose fewer elements", 0, 1e6);
    KEY(double, gemm_tile_256, 1.0, "rate of a 256x128 tile relative to the best", atleast::share, upto::share);
    KEY(double, gemm_tile_128, 0.91, "128x128 tile", atleast::share, upto::share);
    KEY(double, gemm_tile_64, 0.75, "128x64 tile", atleast::share, upto::share);
    KEY(double, gemm_tile_32, 0.30, "64x64 tile", atleast::share, upto::share);
    KEY(double, gemm_tile_wide, 0, "256x256 tile; 0 = never used", 0, upto::share);
    KEY(double, gemm_tile_192, 0, "192x128 tile; 0 = never used", 0, upto::share);
    KEY(double, gemm_tile_narrow, 0, "256x64 tile; 0 = never used", 0, upto::share);
    KEY(double, gemm_tile_reuse, 0, "in place of the rates of tiles: a smaller one's is 1 / (1 + reuse (1/m + 1/n - 3/256)) of the best's", 0, 1e4);
    KEY(bool, gemm_shared_operands, false, "with gemm_tile_reuse: tensor cores take operands from shared memory (Hopper, B200), so tiles have any width; else those of registers (A100, RTX)");
    KEY(double, gemm_reload, 0, "more time of tiles whose operands come from the memory again, as a share", 0, 10);
    KEY(Bytes, gemm_reload_cache, {}, "up to this size the smaller operand of a GEMM comes once", 0, 1e12);
    KEY(double, gemm_wave_loss, 1, "share of the last wave's idle SMs that is lost", 0, 2);
    KEY(double, gemm_traffic_efficiency, 0.85, "share of the memory bandwidth that operands of a GEMM reach", atleast::share, upto::share);
    KEY(double, gemm_corner, 0, "0: the longer of arithmetic and traffic; 1: their sum", 0, 1);
    KEY(Seconds, gemm_split, {}, "more for a GEMM split along k", 0, upto::seconds);
    KEY(double, gemm_split_traffic, 0, "times that a split's fp32 partial result crosses the memory", 0, 100);
    KEY(double, gemm_boost, 0, "clock above the sustained one in short kernels, as a share", 0, 10);
    KEY(Seconds, gemm_boost_time, Seconds(2e-4), "how long a kernel keeps that clock", 1e-9, upto::seconds);
    KEY(double, gemm_unaligned, 1, "rate of a GEMM whose rows are not aligned to 8 elements", 0.01, 1);
    KEY(double, gemm_fp32, 1, "rate of an fp32 GEMM relative to the law", atleast::share, upto::share);
    KEY(double, gemm_nn, 1, "rate of an input gradient's layout relative to the forward's", atleast::share, upto::share);
    KEY(double, gemm_tn, 1, "rate of a weight gradient's layout relative to the forward's", atleast::share, upto::share);
    KEY(double, batched_gemm, 1, "rate of a batch of GEMMs in one kernel relative to one GEMM of as many tiles", atleast::share, upto::share);
    KEY(double, gemm_accumulate, 1, "rate of a GEMM that adds to fp32", atleast::share, upto::share);
    KEY(double, grouped_gemm, 1, "rate of one kernel over groups relative to one GEMM", atleast::share, upto::share);
    KEY_NAMED(PerDtype<NarrowGemm>, narrow, {}, "", "one scale a tensor");  // of nvfp4 its own
    NarrowGemm fp8_blocks;  // a scale a block; its keys follow those of fp8
    KEY(ExpertKernel, experts, {}, "an expert layer alone");  // of no name; steps run its kernels one by one
    KEY(CastCosts, cast, {}, "casts");
    KEY(double, memory_efficiency, 0.85, "share of the memory bandwidth in memory passes", atleast::share, upto::share);
    KEY(Seconds, fused_ramp, Seconds(0.39e-3), "fused expert kernel: start, before the first wave", 0, upto::seconds);
    KEY(double, fused_efficiency, 0.52, "fused expert kernel: share of the peak in a wave", atleast::share, upto::share);
    KEY(Seconds, fused_tail, Seconds(1.01e-3), "fused expert kernel: left after the last remote row", 0, upto::seconds);  // of a gather
    KEY(double, fused_scatter_exposed, 0.44, "fused expert kernel: share of remote writes not hidden by compute", 0, 1);  // of a scatter
    KEY(double, wgrad_efficiency, 0.26, "share of the peak in weight gradients over block lists; 0 = by the GEMM law", 0, upto::share);
    KEY(double, transpose_efficiency, 0.25, "share of the memory bandwidth in weight transposes", atleast::share, upto::share);
    KEY(double, row_efficiency, 0.8, "share of the memory bandwidth in norms and softmax", atleast::share, upto::share);
    KEY(double, strided_efficiency, 0.5, "share of the memory bandwidth in permuted copies and sums over columns", atleast::share, upto::share);
    KEY(Bytes, cache, {}, "passes well below this find their operands in the L2; 0 = none do", 0, 1e12);
    KEY(double, cache_gain, 1, "rate of such passes relative to memory's", 0.01, 100);
    KEY(Seconds, event, {}, "more that a pair of events around one kernel shows; tables only", 0, upto::seconds);
    KEY(Seconds, call_ahead, {}, "what a kernel takes at least where a script launches ahead: its host's call; tables only", 0, upto::seconds);
    KEY(double, training_gemm, 1, "rate of a GEMM inside a transformer step relative to the law", atleast::share, upto::share);  // clocks, layouts
    KEY(double, training_fp8, 1, "rate of an fp8 or fp4 GEMM inside a transformer step, on top of training_gemm", atleast::share, upto::share);  // scaling, transposes
    KEY_IN(attention, efficiency, "attention_efficiency", "share of the peak in flash attention forward", atleast::share, upto::share);
    KEY(double, attention_backward, 0.75, "flash attention: rate of the backward relative to the forward", atleast::share, upto::share);
    KEY(double, attention_v2, 1, "rate of FlashAttention-2's products relative to the device's best kernel's; their exponentials take equally long", atleast::share, upto::share);
    KEY(double, attention_triton, 0, "the same of the kernel that Triton compiled in 2022 and 2023; 0 = attention_v2", 0, upto::share);
    KEY_IN(attention, ramp, "attention_ramp", "flash attention: tokens of a sequence at which half of the rate is reached", 0, 1e6);
    KEY_IN(attention, width, "attention_width", "flash attention: width of a head whose products take as long as its exponentials", 0, 1e4);
    KEY_IN(attention, name, "attention_kernel", "flash attention: which of the tables' kernels a fit takes for steps");
    KEY_IN(attention, launch, "attention_launch", "flash attention: fixed cost; 0 = kernel.launch", 0, upto::seconds);
    KEY_IN(attention, tile, "attention_tile", "flash attention: queries of a thread block; 0 = blocks are not counted against SMs", 0, 4096);
    KEY_IN(attention, slides, "attention_slides", "flash attention: passes over keys that lie before a sliding window; else it masks their scores");
    KEY_IN(attention, fill, "attention_fill", "flash attention: fixed cost of a block of queries, in keys", 0, 1e6);
    KEY_IN(attention, corner, "attention_corner", "flash attention: 0: the longer of all blocks' work and the longest block; 1: their sum; without a mask how much of an idle last wave is lost", 0, 10);
    KEY_IN(attention, traffic, "attention_traffic", "flash attention: times that queries and results cross the memory outside the kernel", 0, 100);
    KEY_IN(attention, cache, "attention_cache", "flash attention: times that keys and values cross the memory outside the kernel, as where they are written to a cache", 0, 100);
    KEY_IN(attention, token, "attention_token", "flash attention: what each token costs on top of the kernel", 0, upto::seconds);
    KEY_IN(attention, token_block, "attention_token_block", "flash attention: elements of a token's keys at which it costs all of attention_token; 0 = whatever it has", 0, 65536);
    KEY_IN(attention, odd, "attention_odd", "flash attention: rate where the kernel has no tiles for the width of a head (no multiple of 16; in fp8 other than 128), relative to others", atleast::share, upto::share);
    KEY_IN(attention, fp8_efficiency, "attention_fp8", "flash attention in fp8: share of the fp8 peak in the products", atleast::share, upto::share);
    KEY_IN(attention, fp8_launch, "attention_fp8_launch", "flash attention in fp8: launches of its casts", 0, upto::seconds);
    KEY_IN(attention, fp8_traffic, "attention_fp8_traffic", "flash attention in fp8: what crosses the memory outside the kernel, relative to 16 bits", 0, 100);
    AttentionKernel attention;  // of steps
    KEY(std::vector<AttentionKernel>, attention_kernels, {}, "attention by the kernels that tables name");
    KEY(std::vector<ExpertKernel>, expert_kernels, {}, "whole expert layers by the implementations that tables name");  // "DTYPE IMPLEMENTATION"
    KEY(double, optimizer_efficiency, 0.8, "share of the memory bandwidth in optimizer passes", atleast::share, upto::share);
    KEY(std::vector<GemmPoint>, gemm_table, {}, "measured shapes, used before the law");
    KEY(bool, gemm_table_by_weight, false, "the table holds rows of single weights (n, k); the law answers elsewhere");
    KEY(Curve, memory_curve, {}, "measured memory passes, bytes read and written");
    [[nodiscard]] const NarrowGemm& of_narrow(Dtype dtype, bool scaled_blocks) const {
        return dtype == Dtype::fp8 && scaled_blocks ? fp8_blocks : narrow[dtype];
    }
    friend bool operator==(const KernelCosts&, const KernelCosts&) = default;
};

// How a collective moves its messages: a fixed cost of the call, a latency per round, a share of the link's bandwidth.
struct Protocol {
    KEY(Seconds, launch, {}, "fixed cost", 0, upto::seconds);
    KEY(Seconds, latency, {}, table == "exchange" ? "each peer" : "one message round", 0, upto::seconds);
    KEY(double, efficiency, 0, "share of the bandwidth; 0 = not used", 0, 2);
    friend bool operator==(const Protocol&, const Protocol&) = default;
};

// Of the table of one level or mode; nullptr where it has no such key.
constexpr const char* of_link(std::string_view table, const char* in_a_node, const char* between_nodes = nullptr) {
    return table == "intra" ? in_a_node : between_nodes;
}
constexpr const char* of_dispatch(std::string_view table, const char* usual, const char* low_latency) {
    return table == "dispatch" ? usual : table == "dispatch_low_latency" ? low_latency : nullptr;
}

// Kernels that write the tokens of an expert layer to where they belong, and back: sim/costs/dispatch_law.h.
struct Dispatch {
    KEY(Seconds, launch, {}, "fixed cost", 0, upto::seconds);
    KEY(double, efficiency, 0, "share of the bandwidth; 0 = not used", 0, 3);  // of the link's, when SMs are plenty
    KEY(Bytes, row, {}, "a row costs as if it were so much longer", 0, 1e12);
    KEY(double, own, 0, "a token on its own rank, relative to sending it", 0, 100);
    KEY(Seconds, token, {}, "what its SMs take for a token, however few bytes cross", 0, upto::seconds);
    KEY(BytesPerSecond, per_sm, {}, of_dispatch(table, "what one SM moves; 0 = the link alone limits", "what one SM sends; 0 = the link alone limits"), 0, upto::rate);
    KEY(int, sms, 20, of_dispatch(table, "SMs that a training step lends", nullptr), 1, 1e6);  // DeepEP's default
    KEY(Seconds, wave, {}, of_dispatch(table, nullptr, "one turn of all SMs, each of which serves one expert"), 0, upto::seconds);
    friend bool operator==(const Dispatch&, const Dispatch&) = default;
};

// Links of one level. Collectives (sim/costs/collective_costs.h): latency per message round plus bytes over `bandwidth`, which
// kernels that read a peer's memory reach; ring collectives reach the share `ring_efficiency` of it with large messages
// and use the protocols for small ones.
struct Link {
    KEY(BytesPerSecond, bandwidth, {}, of_link(table, "per rank and direction in a node", "of one NIC and direction"), 0, upto::rate);
    KEY(double, ring_efficiency, 1, "share of the bandwidth that ring collectives reach", 1e-3, 1);
    KEY(BytesPerSecond, pair_bandwidth, {}, of_link(table, "nvlink_pairs: between the two ranks of a pair"), 0, upto::rate);
    KEY(BytesPerSecond, socket_bandwidth, {}, of_link(table, "between the two sockets of a node without NVSwitch; 0 = as the other links"), 0, upto::rate);
    KEY(double, nvls_efficiency, 0, "reduction in the switch: share of the bandwidth reached; 0 = none", 0, 2);
    KEY(double, all_to_all_efficiency, 1, "share of the bandwidth that grouped sends and receives reach", 1e-3, 1);
    // AllToAll::by_kernels()
    KEY(double, dispatch_efficiency, 0,
        of_link(table, "share of the bandwidth that a step's kernels dispatching tokens reach; 0 = DeepEP's law, or all_to_all_efficiency",
                "share of the bandwidth that kernels dispatching tokens reach; 0 = as all_to_all_efficiency"), 0, 1);
    KEY(Seconds, launch, {}, "fixed cost of a collective call", 0, upto::seconds);  // on top of the message rounds
    KEY(double, training, 1, "rate of a collective inside a transformer step relative to the law", 0.01, 10);
    KEY(Seconds, latency, {}, "one message round", 0, upto::seconds);
    KEY(Seconds, slot_latency, {},
        of_link(table, "low_latency: more once a piece fills one slot", "more a round, on every rank, of a ring that leaves the node"), 0, upto::seconds);
    KEY(Bytes, slot, {}, "low_latency: bytes of one slot", 0, 1e12);
    KEY(double, reduce_copy, 0, "moving a rank's own piece relative to sending it: reductions", 0, 100);
    KEY(double, gather_copy, 0, "moving a rank's own piece relative to sending it: gathers", 0, 100);
    KEY(double, pipelining, 0, "fill of the pipeline of large messages: times sqrt(start * transfer)", 0, 100);
    KEY(Seconds, nvls_launch, {}, "reduction in the switch: fixed cost", 0, upto::seconds);
    KEY(Seconds, exchange_launch, {}, "all-to-all of large messages: fixed cost on top of the latency", 0, upto::seconds);
    KEY(double, exchange_copy, 0, "all-to-all: moving a rank's own piece relative to sending it", 0, 100);
    KEY(Curve, all_reduce, {}, "measured bytes and times");
    KEY(Curve, all_gather, {}, "measured bytes and times");
    KEY(Curve, reduce_scatter, {}, "measured bytes and times");
    KEY(Curve, broadcast, {}, "measured bytes and times");
    KEY(Curve, reduce, {}, "measured bytes and times");
    KEY(Curve, all_to_all, {}, "measured bytes and times");
    KEY(Curve, send_recv, {}, "measured bytes and times");
    KEY(Protocol, low_latency, {}, "small messages (LL)");  // flags inside the data
    KEY(Protocol, low_latency_128, {}, "medium messages (LL128), more than two ranks");  // flags per 128 bytes
    KEY(Protocol, exchange, {}, "all-to-all and sends of small messages");
    KEY(Dispatch, dispatch, {}, of_link(table, "DeepEP's dispatch and combine"));
    KEY(Dispatch, dispatch_low_latency, {}, of_link(table, "DeepEP's low-latency mode"));
    KEY(Dispatch, dispatch_one_sided, {}, of_link(table, "TensorRT-LLM's one-sided kernels over NVLink"));
    KEY(Dispatch, dispatch_two_sided, {}, of_link(table, "TensorRT-LLM's two-sided kernels over NVLink"));
    friend bool operator==(const Link&, const Link&) = default;
};

// What one call of the host costs: HostWork::Kind (model/graph/op.h) says of which.
struct HostCosts {
    KEY(Seconds, call, Seconds(5e-6), "issue one kernel", 0, upto::seconds);
    KEY(Seconds, framework, Seconds(50e-6), "one framework operation", 0, upto::seconds);
    KEY(Seconds, module_forward, Seconds(0.5e-3), "one module call in forward", 0, upto::seconds);
    KEY(Seconds, module_backward, Seconds(0.5e-3), "one module call in backward", 0, upto::seconds);
    KEY(Seconds, layer, Seconds(0.3e-3), "one pass of a transformer layer, on top of its calls", 0, upto::seconds);
    KEY(Seconds, micro_batch, {}, "one pass of a micro-batch through a stage, on top of its layers", 0, upto::seconds);
    KEY(Seconds, exchange, {}, "one tensor-parallel collective, on top of its call", 0, upto::seconds);
    KEY(Seconds, exchange_setup, Seconds(0.1e-3), "one group of sends and receives", 0, upto::seconds);
    KEY(Seconds, expert_layer, {}, "one pass of an expert layer whose tokens go once, on top of its calls", 0, upto::seconds);
    KEY(Seconds, schedule, Seconds(3e-3), "host-side scheduler of faster_moe and mix_moe, once a pass", 0, upto::seconds);
    KEY(Seconds, assignment, Seconds(2e-3), "block lists of mix_moe, the part that a step waits for", 0, upto::seconds);
    KEY(Seconds, message, Seconds(0.1e-3), "one blocking message to another rank, on either side", 0, upto::seconds);
    KEY(Seconds, read, Seconds(50e-6), "reduce a tensor to one value and wait for it", 0, upto::seconds);
    KEY(Seconds, flatten, Seconds(1e-4), "flatten and unscale the gradients of a parameter group", 0, upto::seconds);
    KEY(Seconds, update, Seconds(1e-4), "call the optimizer of a parameter group", 0, upto::seconds);
    KEY(Seconds, gather, Seconds(1.5e-4), "gather the updated parameters of a group and hand them back", 0, upto::seconds);
    KEY(Seconds, input, {}, "the next batch and what a training script does once a step", 0, upto::seconds);
    KEY(double, load, 1, "all of these take so many times longer: other work on the machine's processors", 1e-3, 1000);
    friend bool operator==(const HostCosts&, const HostCosts&) = default;
};

HostCosts no_host_costs();  // all zero

// What computation and communication cost each other while both run on a rank: see Contention in sim/engine/simulate.h.
struct Interference {
    KEY(double, compute_slowdown, 0, "a kernel that overlaps communication takes so much longer", 0, 10);
    KEY(double, communication_slowdown, 0, "communication that overlaps a kernel takes so much longer", 0, 10);
    KEY(bool, shared_links, false, "collectives of different kinds that cross a link at once share its bandwidth");  // sim/network/link_use.h
    friend bool operator==(const Interference&, const Interference&) = default;
};

// Memory that a step needs on top of its tensors.
struct MemoryOverheads {
    KEY(Bytes, context, {}, "memory of the CUDA context and libraries", 0, 1e15);
    KEY(double, fragmentation, 0, "share of the tensors' memory that the allocator loses", 0, 1);
    friend bool operator==(const MemoryOverheads&, const MemoryOverheads&) = default;
};

// Spread of what repeats, and the two processes behind long tails (sim/noise.h). Spreads are standard deviations of the
// logarithm. Bursts: from time to time all kernels of a node take longer for a while. Stragglers: a rank is late in a step
// by a log-normal time, and the others wait for it in the next collective.
struct Noise {
    KEY(double, op, 0, "standard deviation of the logarithm, per task and step", 0, 2);
    KEY(double, step, 0, "standard deviation of the logarithm, common to a step", 0, 2);
    KEY(double, host, 0, "standard deviation of the logarithm of host work, common to a step", 0, 2);
    KEY(double, burst_slowdown, 0, "kernels take so much longer in a burst", 0, 100);
    KEY(Seconds, burst_every, {}, "mean time from one burst to the next; 0 = none", 0, 1e6);
    KEY(Seconds, burst_length, {}, "how long a burst lasts", 0, 1e6);
    KEY(double, straggler_rate, 0, "chance that a rank is late in a step", 0, 1);
    KEY(Seconds, straggler_delay, {}, "median lateness of a late rank", 0, upto::seconds);
    KEY(double, straggler_spread, 0, "standard deviation of the logarithm of the lateness", 0, 5);
    friend bool operator==(const Noise&, const Noise&) = default;
};

struct FittedParameter {
    KEY(std::string, key, {}, "key below the table that was fitted");
    KEY(std::string, value, {}, "with unit, as in TOML");
    KEY(std::string, prior, {}, "what the nameplate said before the fit");
    KEY(double, relative_error, 0, "one standard deviation relative to the value", 0, upto::any);
    KEY(bool, determined, true, "false: the data could not tell it, and it kept its prior");
    friend bool operator==(const FittedParameter&, const FittedParameter&) = default;
};
struct HeldOutError {
    KEY(std::string, kind, {}, "op kind or \"step\"");
    KEY(std::string, method, {}, "\"leave-one-out\", \"held-out fifth\"");
    KEY(int, samples, 0, "rows held out");
    KEY(double, median, 0, "of the absolute error; 0 where it was not computed", 0, upto::any);
    KEY(double, mape, 0, "mean absolute error, a fraction", 0, upto::any);
    KEY(double, bias, 0, "predicted over measured minus 1", atleast::any, upto::any);
    KEY(double, worst, 0, "of the errors", atleast::any, upto::any);
    friend bool operator==(const HeldOutError&, const HeldOutError&) = default;
};
// What sizes a law was fitted on: "gemm.m" 64 to 8192, "all_reduce.bytes" 512 to 5e8.
struct FittedRange {
    KEY(std::string, what, {}, "op kind and size");
    KEY(double, least, 0, "smallest", atleast::any, upto::any);
    KEY(double, most, 0, "largest", atleast::any, upto::any);
    friend bool operator==(const FittedRange&, const FittedRange&) = default;
};
// Constants that steer forecasts on top of `parameters`: a measured table, copied host costs.
struct FittedConstants {
    KEY(std::string, what, {}, "key, or the beginning of several (\"host\")");
    KEY(int, count, 0, "how many");
    KEY(std::string, from, {}, "files, \"prior\", or the cluster that they were copied from");
    friend bool operator==(const FittedConstants&, const FittedConstants&) = default;
};
// A measured row by its content (model/records/provenance.h).
using RowHash = std::uint64_t;
// What a forecast of a measured row shows: its cluster was fitted on it; the model was made with it in sight; neither.
enum class Evidence : std::uint8_t { fitted, seen, unseen };

// Where the numbers came from. Reading a cluster file applies `parameters` over the datasheet values.
struct Fitted {
    KEY(std::string, date, {}, "of the fit");
    KEY(std::vector<std::string>, sources, {}, "files of measurements");
    KEY(int, samples, 0, "rows of them");
    KEY(double, condition, 0, "of the scaled normal equations, determined parameters only", 0, upto::any);
    KEY(std::vector<std::string>, measured, {}, "kinds that the data determined: \"gemm\", \"step\", ..; empty: not recorded");
    KEY(std::vector<double>, correlation, {}, "of the logarithms of `parameters` after the fit: lower triangle, row by row");
    KEY(std::vector<FittedParameter>, parameters, {}, "");
    KEY(std::vector<HeldOutError>, errors, {}, "");
    KEY(std::vector<FittedRange>, ranges, {}, "");
    KEY(std::vector<FittedConstants>, constants, {}, "");
    std::vector<RowHash> rows;  // that were fitted, ascending; not those held out
    friend bool operator==(const Fitted&, const Fitted&) = default;
};

struct Cluster {
    KEY(std::string, name, {}, "name in reports");
    KEY(std::string, source, {}, "where the datasheet values come from");
    KEY(std::string, inherits, {}, "clusters that constants were copied from, separated by commas: what they were fitted on counts as fitted here");
    KEY(int, nodes, 1, "nodes", 1, 1 << 17);
    KEY(int, gpus_per_node, 1, "ranks of a node", 1, 1024);
    KEY(bool, launch_blocking, false, "the host waits for every kernel");
    KEY(double, price_per_gpu_hour, 0, "what a rank costs an hour, in any currency; 0 = not known", 0, 1e6);
    KEY(Fabric, fabric, Fabric::nvswitch, "how the ranks of a node reach each other");
    KEY(Gpu, gpu, {}, "");
    KEY(Network, network, {}, "");
    KEY_NAMED(Link, intra, {}, "link.intra", "");
    KEY_NAMED(Link, inter, {}, "link.inter", "");
    KEY(KernelCosts, kernel, {}, "");
    KEY(Power, power, {}, "");
    KEY(HostCosts, host, {}, "");
    KEY(Interference, interference, {}, "");
    KEY(MemoryOverheads, overheads, {}, "");
    KEY(Noise, noise, {}, "");
    std::optional<Fitted> fitted;
    friend bool operator==(const Cluster&, const Cluster&) = default;
};
inline int rank_count(const Cluster& cluster) { return cluster.nodes * cluster.gpus_per_node; }

// Rules between keys of a cluster: every rank reaches every other, pairs and leaves come out even. Throws ConfigError that
// begins with the key to change.
void check_cluster(const Cluster& cluster);

// A cluster file as TOML text that read_cluster() reads back to an equal value. The [fitted] table states each
// parameter with its prior, error and whether the data determined it.
std::string write_cluster(const Cluster& cluster);
std::string write_nameplate(const Cluster& cluster);  // without constants, which are then taken from machines like it

}  // namespace stepcast
