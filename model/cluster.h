// The machine: datasheet values, cost parameters, and what was fitted from which data. Every number here is a key of
// the cluster file (model/keys/keys.cpp), so a fit, a what-if and a preset speak of the same thing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/dtype.h"
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
    int nics = 0;  // of a node; 0 = one a rank
    bool rails = true;
    int nodes_per_leaf = 32;  // nodes that meet below the spine
    double oversubscription = 1;
    double partial_ring = 1;  // share of its NICs' rate that a ring with some, not one or all ranks of a node reaches
    friend bool operator==(const Network&, const Network&) = default;
};

struct Gpu {
    std::string name;
    std::string aliases;  // other names in tables, separated by commas
    int sms = 1;
    Bytes memory;
    BytesPerSecond memory_bandwidth;
    PerDtype<FlopsPerSecond> peaks;      // dense; 0 = the device has none
    std::vector<double> rank_rates = {};  // of each rank's kernels relative to the laws; empty = all alike
    Bytes l2 = {};                        // the cache that all SMs share; 0 = not stated
    friend bool operator==(const Gpu&, const Gpu&) = default;
};
FlopsPerSecond peak(const Gpu& gpu, Dtype dtype);  // throws ConfigError when the device has no such rate

// Products of operands of fewer than 16 bits. At an efficiency of 0 they run at the constants of 16 bits. `cast_launch` and
// `cast_bytes` (an element) are what a framework's linear layer does to its input before: sim/costs/cast_law.h.
struct NarrowGemm {
    double efficiency = 0;  // of the dtype's datasheet peak
    double k0 = 300;        // fill and drain of the k loop, in its own elements
    double tile_reuse = 0, wave_loss = 0.3;
    Seconds cast_launch;
    double cast_bytes = 0;  // 0: the cast of a tensor with one scale
    Seconds cast_row;       // of a row, on one SM, on top of its bytes
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
    Seconds launch;           // all launches of the layer
    double efficiency = 0.7;  // of the datasheet peak, in the grouped products
    double k0 = 300;          // fill and drain of the k loop, in elements of the operands
    double tile_reuse = 25;
    double traffic = 0.85;  // of the memory bandwidth, weights and rows of the products
    double passes = 1;      // times the bytes of permutation, activation and sum
    bool tabled = false;    // takes the tile that Triton's default table names; else the fastest
    bool reloads = false;   // tiles of 64 rows at most, each of which reads its expert's weights again where the L2 does not hold them
    friend bool operator==(const ExpertKernel&, const ExpertKernel&) = default;
};

// Casts to fp8: sim/costs/cast_law.h.
struct CastCosts {
    Seconds launch = Seconds(2e-6);
    double efficiency = 0.85;      // of the datasheet bandwidth
    Bytes cache = Bytes(4e7);      // casts well below find their operands in the L2
    double cache_gain = 1;         // .. at so many times the memory's rate
    Seconds row = Seconds(2e-7);   // a row with a scale of its own, on one SM
    double tensor_efficiency = 0;  // of casts that look for one scale of all elements; 0: as the others, in and out of the L2
    double tensor_gain = 1;
    double tensor_written = 0;  // bytes more for a byte that they write, up to the L2's size
    friend bool operator==(const CastCosts&, const CastCosts&) = default;
};

// What the board may draw, and what work draws at full clock: sim/costs/clock.h. A limit of 0: not known, the clock stays up.
struct Power {
    double limit = 0, idle = 0;             // W
    double flop = 0;                        // pJ of a floating-point operation on operands of 16 bits
    double byte = 0;                        // pJ of a byte moved to or from memory
    Seconds response = Seconds(3.3e-3);     // length of a kernel, repeated some times, at which half of the fall has happened
    bool in_rates = false;                  // the rates were measured at the clock that the limit leaves: none slows for it again
    friend bool operator==(const Power&, const Power&) = default;
};

// Gemm: sim/costs/gemm_law.h. Fused: sim/op_costs.h. Memory passes: bytes / (efficiency * datasheet bandwidth) + launch.
// A tile's rate of 0: the library never uses it. Defaults beyond the first tiles switch their effect off.
struct KernelCosts {
    Seconds launch = Seconds(2.4e-6);         // fixed device-side cost of a kernel
    double gemm_efficiency = 0.92;            // of the datasheet peak, in a full wave of the best tile
    double gemm_k0 = 149;                     // fill and drain of the k loop, in k elements of 16 bits
    double gemm_tile_256 = 1.0;               // rate of a 256x128 tile relative to the best
    double gemm_tile_128 = 0.91;              // 128x128
    double gemm_tile_64 = 0.75;               // 128x64
    double gemm_tile_32 = 0.30;               // 64x64
    double gemm_tile_wide = 0;                // 256x256
    double gemm_tile_192 = 0;                 // 192x128
    double gemm_tile_narrow = 0;              // 256x64
    double gemm_tile_reuse = 0;               // in place of these: a smaller tile's rate is 1 / (1 + reuse (1/m + 1/n - 3/256))
    bool gemm_shared_operands = false;        // and tiles are those of tensor cores that read shared memory
    double gemm_reload = 0;                   // more time of tiles whose operands come from the memory again ..
    Bytes gemm_reload_cache;                  // .. because the smaller one is larger than this
    double gemm_wave_loss = 1;                // share of the last wave's idle SMs that is lost
    double gemm_traffic_efficiency = 0.85;    // of the datasheet bandwidth, operands of a GEMM
    double gemm_corner = 0;                   // 0: the longer of arithmetic and traffic; 1: their sum
    Seconds gemm_split;                       // more for a GEMM split along k
    double gemm_split_traffic = 0;            // times that each split's fp32 partial result crosses the memory
    double gemm_boost = 0;                    // clock above the sustained one while a kernel is short ..
    Seconds gemm_boost_time = Seconds(2e-4);  // .. against this time
    double gemm_accumulate = 1;               // rate when C is fp32 and added to
    double gemm_unaligned = 1;                // rate when rows are not aligned to 8 elements
    double gemm_fp32 = 1;                     // rate of fp32 on plain cores relative to what the law says
    double gemm_nn = 1;                       // rate of an input gradient's layout relative to the forward's
    double gemm_tn = 1;                       // the same of a weight gradient's
    double batched_gemm = 1;                  // rate of a batch in one kernel relative to one GEMM of as many tiles
    double grouped_gemm = 1;                  // rate of one kernel over groups relative to one GEMM
    double memory_efficiency = 0.85;          // achieved share of the datasheet bandwidth in memory passes
    Seconds fused_ramp = Seconds(0.39e-3);    // fused expert kernel: start, before the first wave
    double fused_efficiency = 0.52;           // of an SM's peak share while a wave runs
    Seconds fused_tail = Seconds(1.01e-3);    // gather: compute left after the last remote row has arrived
    double fused_scatter_exposed = 0.44;      // scatter: share of the remote writes that compute does not hide
    double wgrad_efficiency = 0.26;           // of the datasheet peak, grouped weight gradients of block lists
    double transpose_efficiency = 0.25;       // of the datasheet bandwidth, weight transposes
    double row_efficiency = 0.8;              // the same, norms and softmax
    double strided_efficiency = 0.5;          // the same, permuted copies and sums over columns
    Bytes cache;                              // passes well below this find their operands in the L2; 0 = none do
    double cache_gain = 1;                    // their rate relative to memory's
    Seconds event;                            // more that a pair of events around one kernel alone shows
    Seconds call_ahead;                       // what a kernel takes at least in tables of a script that launches ahead: its host's call
    double training_gemm = 1;                 // rate of a GEMM inside a step relative to the law (clocks, layouts)
    double training_fp8 = 1;                  // the same in fp8 and fp4 (scaling, transposes), on top of training_gemm
    double attention_backward = 0.75;         // rate of its backward relative to its forward
    double attention_v2 = 1;                  // rate of FlashAttention-2's products relative to the best kernel of the device
    double attention_triton = 0;              // the same of Triton's kernel of 2022 and 2023; 0 = attention_v2
    AttentionKernel attention;                // of steps: blocks of queries against SMs, fp8
    double optimizer_efficiency = 0.8;        // of the datasheet bandwidth, optimizer passes
    PerDtype<NarrowGemm> narrow;              // one scale a tensor; of nvfp4 its own
    NarrowGemm fp8_blocks;                    // a scale a block
    [[nodiscard]] const NarrowGemm& of_narrow(Dtype dtype, bool scaled_blocks) const {
        return dtype == Dtype::fp8 && scaled_blocks ? fp8_blocks : narrow[dtype];
    }
    CastCosts cast;
    ExpertKernel experts;  // an expert layer alone, of no name; steps run its kernels one by one
    std::vector<AttentionKernel> attention_kernels;  // by the names of tables
    std::vector<ExpertKernel> expert_kernels;        // the same: "DTYPE IMPLEMENTATION"
    std::vector<GemmPoint> gemm_table;        // measured shapes, used before the law
    bool gemm_table_by_weight = false;  // the table holds rows of single weights (n, k); the law answers elsewhere
    Curve memory_curve;                 // measured memory passes (read + written bytes)
    friend bool operator==(const KernelCosts&, const KernelCosts&) = default;
};

// How a collective moves its messages: a fixed cost of the call, a latency per round, a share of the link's bandwidth.
struct Protocol {
    Seconds launch, latency;
    double efficiency = 0;  // 0: the protocol does not exist
    friend bool operator==(const Protocol&, const Protocol&) = default;
};

// Kernels that write the tokens of an expert layer to where they belong, and back: sim/costs/dispatch_law.h.
struct Dispatch {
    Seconds launch;
    double efficiency = 0;  // share of the link's bandwidth when SMs are plenty; 0: no such kernels
    BytesPerSecond per_sm;  // what one SM moves; 0 = the link alone limits
    int sms = 20;           // that a training step lends them; DeepEP's default
    Bytes row;              // a row costs as if it were so much longer
    double own = 0;         // reading or writing a token on its own rank, relative to sending it
    Seconds token;          // what its SMs take for a token, however few bytes of it cross
    Seconds wave;           // one turn of the device's SMs, each of which serves one expert: the low-latency mode
    friend bool operator==(const Dispatch&, const Dispatch&) = default;
};

// Links of one level. Collectives (sim/costs/collective_costs.h): latency per message round plus bytes over `bandwidth`, which
// kernels that read a peer's memory reach; ring collectives reach the share `ring_efficiency` of it with large messages
// and use the protocols for small ones.
struct Link {
    BytesPerSecond bandwidth;
    BytesPerSecond pair_bandwidth;    // nvlink_pairs: between the two of a pair
    BytesPerSecond socket_bandwidth;  // pcie, nvlink_pairs: between the two sockets of a node; 0 = as the other links
    double ring_efficiency = 1;
    double nvls_efficiency = 0;        // in-switch reduction: share of the bandwidth reached; 0 = the switch has none
    double all_to_all_efficiency = 1;  // share of the bandwidth that grouped sends and receives reach
    double dispatch_efficiency = 0;    // the same of kernels that dispatch tokens (AllToAll::by_kernels()); 0 = the same
    double training = 1;               // rate of a collective inside a transformer step relative to the law
    Seconds latency;
    Seconds launch;            // fixed cost of a collective call, on top of the message rounds
    Protocol low_latency;      // flags inside the data (NCCL's LL)
    Protocol low_latency_128;  // flags per 128 bytes (LL128); more than two ranks
    Seconds slot_latency;      // low_latency: more once a rank's piece fills ..
    Bytes slot;                // .. one slot
    double reduce_copy = 0;    // moving a rank's own chunk in addition to the ring, relative to sending it: reductions
    double gather_copy = 0;    // the same: gathers
    double pipelining = 0;     // fill of the pipeline of large messages: times sqrt(start * transfer)
    Seconds nvls_launch;
    Protocol exchange;        // all-to-all and sends of small messages; its latency is per peer
    Seconds exchange_launch;  // of large messages, on top of `latency`
    double exchange_copy = 0;
    Dispatch dispatch, dispatch_low_latency;            // DeepEP's modes
    Dispatch dispatch_one_sided, dispatch_two_sided;    // TensorRT-LLM's, over an NVLink domain
    Curve all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, send_recv;
    friend bool operator==(const Link&, const Link&) = default;
};

// What one call of the host costs.
struct HostCosts {
    Seconds call = Seconds(5e-6);              // issue one kernel
    Seconds framework = Seconds(50e-6);        // HostWork::Kind::framework: one framework operation
    Seconds module_forward = Seconds(0.5e-3);  // HostWork::Kind::module in forward: one module call (an expert's)
    Seconds module_backward = Seconds(0.5e-3);
    Seconds layer = Seconds(0.3e-3);  // HostWork::Kind::layer: one pass of a transformer layer, on top of its calls
    Seconds micro_batch = Seconds(0);  // HostWork::Kind::micro_batch: one pass of a micro-batch through a stage
    Seconds exchange = Seconds(0);     // HostWork::Kind::exchange: one tensor-parallel collective, on top of its call
    Seconds exchange_setup = Seconds(0.1e-3);  // HostWork::Kind::exchange_setup: one group of sends and receives
    Seconds expert_layer =
        Seconds(0);  // HostWork::Kind::experts: router, dispatch, experts: one pass, on top of its calls
    Seconds schedule =
        Seconds(3e-3);  // HostWork::Kind::schedule: host-side scheduler of faster_moe, mix_moe: once a pass
    Seconds assignment = Seconds(2e-3);  // HostWork::Kind::assignment: mix_moe's block lists, the part waited for
    Seconds message = Seconds(0.1e-3);   // one blocking message to another rank, on either side
    Seconds read = Seconds(50e-6);    // HostWork::Kind::read: one value is reduced on the device, copied and waited for
    Seconds flatten = Seconds(1e-4);  // HostWork::Kind::flatten: gradients of a parameter group, flattened and unscaled
    Seconds update = Seconds(1e-4);   // HostWork::Kind::update: optimizer of a parameter group
    Seconds gather = Seconds(1.5e-4);  // HostWork::Kind::gather: parameters of a group, gathered and handed back
    Seconds input = Seconds(0);        // HostWork::Kind::input: the next batch and what a script does once a step
    double load = 1;  // times all of these: other work on the machine's processors (data loading, neighbours)
    friend bool operator==(const HostCosts&, const HostCosts&) = default;
};

HostCosts no_host_costs();  // all zero

// What computation and communication cost each other while both run on a rank: see Contention in sim/engine/simulate.h.
struct Interference {
    double compute_slowdown = 0;
    double communication_slowdown = 0;
    // Collectives of different kinds share the links that they cross at once: sim/network/link_use.h.
    bool shared_links = false;
    friend bool operator==(const Interference&, const Interference&) = default;
};

// Memory that a step needs on top of its tensors.
struct MemoryOverheads {
    Bytes context;             // CUDA context, libraries, communicators
    double fragmentation = 0;  // share of the tensors that the allocator loses
    friend bool operator==(const MemoryOverheads&, const MemoryOverheads&) = default;
};

// Spread of what repeats, and the two processes behind long tails (sim/noise.h). Spreads are standard deviations of the
// logarithm. Bursts: from time to time all kernels of a node take longer for a while. Stragglers: a rank is late in a step
// by a log-normal time, and the others wait for it in the next collective.
struct Noise {
    double op = 0;              // per task and step
    double step = 0;            // common to a whole step (clocks, neighbours)
    double host = 0;            // of what the host does, common to a step
    double burst_slowdown = 0;  // kernels take so much longer in a burst
    Seconds burst_every;        // mean time from burst to burst; 0 = none
    Seconds burst_length;
    double straggler_rate = 0;  // chance that a rank is late in a step
    Seconds straggler_delay;    // median lateness
    double straggler_spread = 0;
    friend bool operator==(const Noise&, const Noise&) = default;
};

// One fitted parameter. `determined` is false when the data could not tell it; then it kept its prior.
struct FittedParameter {
    std::string key;    // as in keys.cpp, below "cluster."
    std::string value;  // with unit, as in TOML
    std::string prior;
    double relative_error = 0;  // one standard deviation relative to the value
    bool determined = true;
    friend bool operator==(const FittedParameter&, const FittedParameter&) = default;
};
struct HeldOutError {
    std::string kind;    // op kind or "step"
    std::string method;  // "leave-one-out", "held-out fifth"
    int samples = 0;
    double mape = 0, bias = 0, worst = 0;  // fractions; bias signed, predicted over measured minus 1
    double median = 0;                     // of the absolute error; 0 where it was not computed
    friend bool operator==(const HeldOutError&, const HeldOutError&) = default;
};
// What sizes a law was fitted on: "gemm.m" 64 to 8192, "all_reduce.bytes" 512 to 5e8.
struct FittedRange {
    std::string what;
    double least = 0, most = 0;
    friend bool operator==(const FittedRange&, const FittedRange&) = default;
};
// Constants that steer forecasts on top of `parameters`: a measured table, copied host costs.
struct FittedConstants {
    std::string what;  // key, or the beginning of several ("host")
    int count = 0;
    std::string from;  // files, "prior", or the cluster that they were copied from
    friend bool operator==(const FittedConstants&, const FittedConstants&) = default;
};
// A measured row by its content (model/records/provenance.h).
using RowHash = std::uint64_t;
// What a forecast of a measured row shows: its cluster was fitted on it; the model was made with it in sight; neither.
enum class Evidence : std::uint8_t { fitted, seen, unseen };

// Where the numbers came from. Reading a cluster file applies `parameters` over the datasheet values.
struct Fitted {
    std::string date;
    std::vector<std::string> sources;
    int samples = 0;
    double condition = 0;  // of the scaled normal equations, determined parameters only
    std::vector<FittedParameter> parameters;
    std::vector<HeldOutError> errors;
    std::vector<FittedRange> ranges;
    std::vector<FittedConstants> constants;
    std::vector<RowHash> rows;  // that were fitted, ascending; not those held out
    std::vector<double> correlation;  // of the logarithms of `parameters` after the fit: lower triangle, row by row
    std::vector<std::string> measured;  // kinds that the data determined: "gemm", "step", ..; empty: not recorded
    friend bool operator==(const Fitted&, const Fitted&) = default;
};

struct Cluster {
    std::string name;
    std::string source;    // where the datasheet values come from
    std::string inherits;  // clusters (presets) that constants were copied from, separated by commas
    int nodes = 1;
    int gpus_per_node = 1;
    bool launch_blocking = false;  // the host waits for every kernel (CUDA_LAUNCH_BLOCKING=1; the host device)
    Gpu gpu;
    Fabric fabric = Fabric::nvswitch;
    Network network;
    Link intra, inter;
    KernelCosts kernel;
    HostCosts host;
    Power power;
    Interference interference;
    MemoryOverheads overheads;
    Noise noise;
    double price_per_gpu_hour = 0;  // in any currency; 0 = not known
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
