// The machine: datasheet values, cost parameters, and what was fitted from which data. Every number
// is a key of the cluster file, so that fits, what-ifs and presets use the same names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/base/dtype.h"
#include "model/base/units.h"
#include "model/fitted.h"
#include "model/input/keyed.h"
#include "model/kernel_costs.h"

namespace stepcast {

// How ranks of a node communicate. nvswitch: any two at full bandwidth; nvlink_mesh: over direct
// links, which divide a rank's bandwidth among its neighbours; nvlink_pairs: ranks 2i and 2i+1 over
// `pair_bandwidth`, all others over the host bridge; pcie: all through one tree of switches.
NAMED_ENUM_AS(Fabric, "a fabric", "nvswitch, nvlink-mesh, nvlink-pairs, pcie", nvswitch,
              nvlink_mesh, nvlink_pairs, pcie);

// Whether all ranks of a node reach all others over links of the GPUs' own, so that
// link.intra.bandwidth is that of these links.
constexpr bool joins_gpus(Fabric fabric) {
    return fabric == Fabric::nvswitch || fabric == Fabric::nvlink_mesh;
}

// The network between nodes: NICs (link.inter.bandwidth is that of one NIC), leaf switches, and a
// spine with `oversubscription` times too few links. A leaf connects NIC i of every node of a group
// (`rails`) or all NICs of whole nodes.
struct Network {
    KEY(int, nics, 0, "NICs of a node; 0 = one a rank", 0, 1024);
    KEY(bool, rails, true, "NIC i of every node meets on a leaf of its own");
    KEY(int, nodes_per_leaf, 32, "nodes that meet below the spine", 1, 1 << 17);
    KEY(double, oversubscription, 1, "leaf-to-spine oversubscription; 1 = non-blocking", 0.1, 1000);
    KEY(double, partial_ring, 1,
        "rings with some, not one or all, ranks of a node: share of their NICs' rate that they "
        "reach",
        0.01, 1);
    friend bool operator==(const Network&, const Network&) = default;
};

struct Gpu {
    KEY(std::string, name, {}, "device");
    KEY(std::string, aliases, {}, "its other names in tables, separated by commas");
    KEY(int, sms, 1, "streaming multiprocessors, or cores of a rank", 1, 100000);
    // torch.cuda.get_device_properties().total_memory: less than nvidia-smi's, by what the driver
    // keeps
    KEY(Bytes, memory, {}, "device memory as a process sees it", 1, 1e15);
    KEY(BytesPerSecond, memory_bandwidth, {}, "memory bandwidth, datasheet", 1, upto::rate);
    KEY(Bytes, l2, {}, "cache that all SMs share, datasheet; 0 = not stated", 0, 1e12);
    KEY(Bytes, memory_interleave, {},
        "bytes after which addresses return to the same memory channel; 0 = ignored", 0, 1e12);
    KEY_NAMED(PerDtype<FlopsPerSecond>, peaks, {}, "peak.", "dense peak; 0 = none");
    KEY(std::vector<double>, rank_rates, {},
        "rate of each rank's kernels relative to the cost models; empty = all alike");
    friend bool operator==(const Gpu&, const Gpu&) = default;
};

// throws ConfigError if the device has no such rate
FlopsPerSecond peak(const Gpu& gpu, Dtype dtype);

// Power limit of the board, and power that work draws at full clock: sim/costs/clock.h. limit = 0:
// unknown, the clock never falls.
struct Power {
    KEY_NAMED(double, limit, 0, "limit_w",
              "power limit of the board, W; 0 = not known, the clock never falls", 0, 1e5);
    KEY_NAMED(double, idle, 0, "idle_w", "power of the idle board, W", 0, 1e5);
    KEY_NAMED(double, flop, 0, "flop_pj",
              "energy of a floating-point operation of 16 bits at full clock, pJ", 0, 1e4);
    KEY_NAMED(double, byte, 0, "byte_pj", "energy of a byte moved to or from memory, pJ", 0, 1e6);
    KEY(double, busy_share, 0.42,
        "share of the power between idle and limit that any kernel draws, as copies of an H100 and "
        "an H200; energy only",
        0, 1);
    KEY(bool, in_rates, false,
        "the kernels' rates were measured at the clock that the limit leaves: it changes energy "
        "only");
    KEY(Seconds, response, Seconds(3.3e-3),
        "length of a repeated kernel at which half of the clock's fall has happened; only for "
        "tables",
        1e-9, upto::seconds);
    friend bool operator==(const Power&, const Power&) = default;
};

// A protocol that moves the messages of a collective: fixed cost per call, latency per round, share
// of the link's bandwidth.
struct Protocol {
    KEY(Seconds, launch, {}, "fixed cost", 0, upto::seconds);
    KEY(Seconds, latency, {}, table == "exchange" ? "each peer" : "one message round", 0,
        upto::seconds);
    KEY(double, efficiency, 0, "share of the bandwidth; 0 = not used", 0, 2);
    friend bool operator==(const Protocol&, const Protocol&) = default;
};

// Help text of a key by its table: the link level, or the dispatch mode. nullptr means that the
// table does not have the key.
constexpr const char* of_link(std::string_view table, const char* in_a_node,
                              const char* between_nodes = nullptr) {
    return table == "intra" ? in_a_node : between_nodes;
}
constexpr const char* of_dispatch(std::string_view table, const char* usual,
                                  const char* low_latency) {
    return table == "dispatch" ? usual : table == "dispatch_low_latency" ? low_latency : nullptr;
}

// Kernels that send the tokens of an expert layer to their experts and back:
// sim/costs/dispatch_law.h.
struct Dispatch {
    KEY(Seconds, launch, {}, "fixed cost", 0, upto::seconds);
    // of the link's bandwidth, with enough SMs
    KEY(double, efficiency, 0, "share of the bandwidth; 0 = not used", 0, 3);
    KEY(Bytes, row, {}, "bytes added to each row: its fixed cost", 0, 1e12);
    KEY(double, own, 0, "a token on its own rank, relative to sending it", 0, 100);
    KEY(Seconds, token, {}, "time of an SM for a token, however few bytes cross", 0, upto::seconds);
    KEY(BytesPerSecond, per_sm, {},
        of_dispatch(table, "rate that one SM moves; 0 = only the link limits",
                    "rate that one SM sends; 0 = only the link limits"),
        0, upto::rate);
    // DeepEP's default
    KEY(int, sms, 20,
        of_dispatch(table, "SMs that a training step gives to these kernels", nullptr), 1, 1e6);
    KEY(Seconds, wave, {},
        of_dispatch(table, nullptr, "time of one wave of all SMs, each of which serves one expert"),
        0, upto::seconds);
    friend bool operator==(const Dispatch&, const Dispatch&) = default;
};

// Links of one level. The cost of a collective (sim/costs/collective_costs.h) is a latency per
// message round plus bytes over `bandwidth`, which kernels that read a peer's memory reach. Ring
// collectives with large messages reach only the share `ring_efficiency` of it; with small messages
// they use the protocols.
struct Link {
    KEY(BytesPerSecond, bandwidth, {},
        of_link(table, "per rank and direction in a node", "of one NIC and direction"), 0,
        upto::rate);
    KEY(double, ring_efficiency, 1, "share of the bandwidth that ring collectives reach", 1e-3, 1);
    KEY(BytesPerSecond, pair_bandwidth, {},
        of_link(table, "nvlink_pairs: between the two ranks of a pair"), 0, upto::rate);
    KEY(std::vector<double>, mesh, {},
        of_link(table,
                "nvlink-mesh: links that join ranks 0 and 1, 0 and 2, .., 1 and 2, ..; more ranks "
                "than a node uses may be listed"));
    KEY(BytesPerSecond, host_bandwidth, {},
        of_link(table, "nvlink-mesh: per rank through the host, where no links lead"), 0,
        upto::rate);
    KEY(BytesPerSecond, socket_bandwidth, {},
        of_link(table,
                "between the two sockets of a node without NVSwitch; 0 = as the other links"),
        0, upto::rate);
    KEY(double, nvls_efficiency, 0,
        "reduction in the switch: share of the bandwidth reached; 0 = none", 0, 2);
    // above 1 if rings do not fill the link
    KEY(double, all_to_all_efficiency, 1,
        "share of the bandwidth that grouped sends and receives reach", 1e-3, 2);
    // Applies to AllToAll::by_kernels().
    KEY(double, dispatch_efficiency, 0,
        of_link(table,
                "share of the bandwidth that a step's kernels dispatching tokens reach; 0 = "
                "DeepEP's cost model, or all_to_all_efficiency",
                "share of the bandwidth that kernels dispatching tokens reach; 0 = as "
                "all_to_all_efficiency"),
        0, 1);
    // on top of the message rounds
    KEY(Seconds, launch, {}, "fixed cost of a collective call", 0, upto::seconds);
    KEY(double, training, 1,
        "rate of a collective inside a transformer step relative to the cost model", 0.01, 10);
    KEY(Seconds, latency, {}, "one message round", 0, upto::seconds);
    KEY(Seconds, slot_latency, {},
        of_link(table, "low_latency: added once a piece fills one slot",
                "added to each round, on every rank, of a ring that leaves the node"),
        0, upto::seconds);
    KEY(Bytes, slot, {}, "low_latency: bytes of one slot", 0, 1e12);
    KEY(double, reduce_copy, 0, "moving a rank's own piece relative to sending it: reductions", 0,
        100);
    KEY(double, gather_copy, 0, "moving a rank's own piece relative to sending it: gathers", 0,
        100);
    KEY(double, pipelining, 0,
        "fill of the pipeline of large messages: times sqrt(start * transfer)", 0, 100);
    KEY(Seconds, nvls_launch, {}, "reduction in the switch: fixed cost", 0, upto::seconds);
    KEY(Seconds, exchange_launch, {},
        "all-to-all of large messages: fixed cost on top of the latency", 0, upto::seconds);
    KEY(double, exchange_copy, 0, "all-to-all: moving a rank's own piece relative to sending it", 0,
        100);
    // Constants of NCCL's all-to-all inside a node (sim/costs/exchange_law.h).
    KEY(BytesPerSecond, exchange_channel, {},
        of_link(table, "all-to-all: rate of one channel; 0 = only the link limits"), 0, upto::rate);
    KEY(BytesPerSecond, exchange_small_channel, {},
        of_link(table,
                "all-to-all: rate of one channel for small messages; 0 = only the link limits"),
        0, upto::rate);
    KEY(Bytes, exchange_small, {}, of_link(table, "all-to-all: the longest small message"), 0,
        1e12);
    KEY(Bytes, exchange_chunk, {}, of_link(table, "all-to-all: bytes that a channel moves at once"),
        0, 1e12);
    KEY(double, exchange_fill, 0,
        of_link(table, "all-to-all: time to fill the first chunk, relative to its transfer"), 0,
        100);
    KEY(Curve, all_reduce, {}, "measured bytes and times");
    KEY(Curve, all_gather, {}, "measured bytes and times");
    KEY(Curve, reduce_scatter, {}, "measured bytes and times");
    KEY(Curve, broadcast, {}, "measured bytes and times");
    KEY(Curve, reduce, {}, "measured bytes and times");
    KEY(Curve, all_to_all, {}, "measured bytes and times");
    KEY(Curve, send_recv, {}, "measured bytes and times");
    KEY(Protocol, low_latency, {}, "small messages (LL)");  // flags inside the data
    // flags per 128 bytes
    KEY(Protocol, low_latency_128, {}, "medium messages (LL128), more than two ranks");
    KEY(Protocol, exchange, {}, "all-to-all and sends of small messages");
    KEY(Dispatch, dispatch, {}, of_link(table, "DeepEP's dispatch and combine"));
    KEY(Dispatch, dispatch_low_latency, {}, of_link(table, "DeepEP's low-latency mode"));
    KEY(Dispatch, dispatch_one_sided, {},
        of_link(table, "TensorRT-LLM's one-sided kernels over NVLink"));
    KEY(Dispatch, dispatch_two_sided, {},
        of_link(table, "TensorRT-LLM's two-sided kernels over NVLink"));
    friend bool operator==(const Link&, const Link&) = default;
};

// Host time per call, by HostWork::Kind (model/graph/op.h).
struct HostCosts {
    KEY(Seconds, call, Seconds(5e-6), "issue one kernel", 0, upto::seconds);
    KEY(Seconds, framework, Seconds(50e-6), "one framework operation", 0, upto::seconds);
    KEY(Seconds, module_forward, Seconds(0.5e-3), "one module call in forward", 0, upto::seconds);
    KEY(Seconds, module_backward, Seconds(0.5e-3), "one module call in backward", 0, upto::seconds);
    KEY(Seconds, layer, Seconds(0.3e-3), "one pass of a transformer layer, on top of its calls", 0,
        upto::seconds);
    KEY(Seconds, micro_batch, {}, "one pass of a micro-batch through a stage, on top of its layers",
        0, upto::seconds);
    KEY(Seconds, recompute, {},
        "one pass of a layer that is recomputed, its forward and its second one, on top of both", 0,
        upto::seconds);
    KEY(Seconds, exchange, {}, "one tensor-parallel collective, on top of its call", 0,
        upto::seconds);
    KEY(Seconds, exchange_setup, Seconds(0.1e-3), "one group of sends and receives", 0,
        upto::seconds);
    KEY(Seconds, expert_layer, {},
        "one pass of an expert layer whose tokens go once, on top of its calls", 0, upto::seconds);
    KEY(Seconds, schedule, Seconds(3e-3),
        "host-side scheduler of faster_moe and mix_moe, once a pass", 0, upto::seconds);
    KEY(Seconds, assignment, Seconds(2e-3),
        "block lists of mix_moe, the part that a step waits for", 0, upto::seconds);
    KEY(Seconds, message, Seconds(0.1e-3), "one blocking message to another rank, on either side",
        0, upto::seconds);
    KEY(Seconds, read, Seconds(50e-6), "reduce a tensor to one value and wait for it", 0,
        upto::seconds);
    KEY(Seconds, flatten, Seconds(1e-4), "flatten and unscale the gradients of a parameter group",
        0, upto::seconds);
    KEY(Seconds, update, Seconds(1e-4), "call the optimizer of a parameter group", 0,
        upto::seconds);
    KEY(Seconds, gather, Seconds(1.5e-4),
        "gather the updated parameters of a group and hand them back", 0, upto::seconds);
    KEY(Seconds, input, {}, "the next batch and what a training script does once a step", 0,
        upto::seconds);
    KEY(double, load, 1, "factor on all of these: other work on the machine's processors", 1e-3,
        1000);
    friend bool operator==(const HostCosts&, const HostCosts&) = default;
};

HostCosts no_host_costs();  // all zero

// How much computation and communication slow each other down on one rank: see interact() in
// sim/engine/simulate.h.
struct Interference {
    KEY(double, compute_slowdown, 0,
        "share by which a kernel that overlaps communication takes longer", 0, 10);
    KEY(double, communication_slowdown, 0,
        "share by which communication that overlaps a kernel takes longer", 0, 10);
    // sim/network/link_use.h
    KEY(bool, shared_links, false,
        "collectives of different kinds that cross a link at once share its bandwidth");
    friend bool operator==(const Interference&, const Interference&) = default;
};

// A node's main memory, for an optimizer there. Rates: notes/published-steps.md, "Optimizers on the
// host".
struct MainMemory {
    KEY(BytesPerSecond, link, BytesPerSecond(20e9),
        "rate between a rank and the host's memory, each way", 1e-3, upto::rate);
    KEY(BytesPerSecond, update, BytesPerSecond(50e9),
        "rate at which the optimizers of all ranks of a node read and write the host's memory",
        1e-3, upto::rate);
    friend bool operator==(const MainMemory&, const MainMemory&) = default;
};

struct MemoryOverheads {
    KEY(std::optional<Bytes>, context, {},
        "memory of the CUDA context and libraries; unstated: by libraries.toml", 0, 1e15);
    KEY(double, fragmentation, 0, "share of the tensors' memory that the allocator loses", 0, 1);
    KEY(double, margin, 0.02,
        "share of the device's memory that a sweep leaves free: configurations within it come last",
        0, 1);
    friend bool operator==(const MemoryOverheads&, const MemoryOverheads&) = default;
};

// The spread of repeated work, and the two processes behind long tails (sim/noise.h). Spreads are
// standard deviations of the logarithm. Burst: all kernels of a node are slower for a while.
// Straggler: a rank is late in a step by a log-normal time, and the others wait for it in the next
// collective.
struct Noise {
    KEY(double, op, 0, "standard deviation of the logarithm, per task and step", 0, 2);
    KEY(double, step, 0, "standard deviation of the logarithm, common to a step", 0, 2);
    KEY(double, host, 0, "standard deviation of the logarithm of host work, common to a step", 0,
        2);
    KEY(double, burst_slowdown, 0, "share by which kernels take longer in a burst", 0, 100);
    KEY(Seconds, burst_every, {}, "mean time from one burst to the next; 0 = none", 0, 1e6);
    KEY(Seconds, burst_length, {}, "how long a burst lasts", 0, 1e6);
    KEY(double, straggler_rate, 0, "chance that a rank is late in a step", 0, 1);
    KEY(Seconds, straggler_delay, {}, "median lateness of a late rank", 0, upto::seconds);
    KEY(Seconds, straggler_step, {},
        "length of the steps in which ranks were late by that: other steps scale it; 0 = the same "
        "in any step",
        0, upto::seconds);
    KEY(double, straggler_spread, 0, "standard deviation of the logarithm of the lateness", 0, 5);
    friend bool operator==(const Noise&, const Noise&) = default;
};

struct Cluster {
    // Out of line, as Experiment's.
    Cluster();
    Cluster(const Cluster&);
    Cluster(Cluster&&) noexcept;
    Cluster& operator=(const Cluster&);
    Cluster& operator=(Cluster&&) noexcept;
    ~Cluster();

    KEY(std::string, name, {}, "name in reports");
    KEY(std::string, source, {}, "where the datasheet values come from");
    KEY(std::string, inherits, {},
        "clusters that constants were copied from, separated by commas: what they were fitted on "
        "counts as fitted here");
    KEY(int, nodes, 1, "nodes", 1, 1 << 17);
    KEY(int, gpus_per_node, 1, "ranks of a node", 1, 1024);
    KEY(bool, launch_blocking, false, "the host waits for every kernel");
    KEY(double, price_per_gpu_hour, 0, "what a rank costs an hour, in any currency; 0 = not known",
        0, 1e6);
    KEY(Fabric, fabric, Fabric::nvswitch, "how the ranks of a node reach each other");
    KEY(Gpu, gpu, {}, "");
    KEY(Network, network, {}, "");
    KEY_NAMED(Link, intra, {}, "link.intra", "");
    KEY_NAMED(Link, inter, {}, "link.inter", "");
    KEY(KernelCosts, kernel, {}, "");
    KEY(Power, power, {}, "");
    KEY(HostCosts, host, {}, "");
    KEY(Interference, interference, {}, "");
    KEY(MainMemory, host_memory, {}, "");
    KEY(MemoryOverheads, overheads, {}, "");
    KEY(Noise, noise, {}, "");
    std::optional<Fitted> fitted;
    friend bool operator==(const Cluster&, const Cluster&) = default;
};
inline int rank_count(const Cluster& cluster) { return cluster.nodes * cluster.gpus_per_node; }

// The NICs that are left to a node with only `part` of its `ranks` ranks: their share, rounded up.
// 0 stays one a rank.
constexpr int nics_of_part(int nics, int ranks, int part) {
    return (nics * part + ranks - 1) / ranks;
}

// How many ranks the numbers of a mesh join, one number for each pair; 0 if no number of ranks has
// so many pairs.
int ranks_of_mesh(std::span<const double> links);

// What the direct links between two ranks of a node carry in each direction: the rank of the whole
// mesh with the most links has link.intra.bandwidth. 0 without a direct link or without a mesh.
BytesPerSecond mesh_bandwidth(const Cluster& cluster, int a, int b);

// whether direct links lead from each rank of a node to all others, over others
bool mesh_connected(const Cluster& cluster);

// its costs in a training step: no cache is written and nothing else is launched
AttentionKernel alone(AttentionKernel kernel);

}  // namespace stepcast
