// What the libraries of a training process hold of its device, and launch on it:
// model/presets/libraries.toml.
#pragma once

#include <string>

#include "model/cluster.h"

namespace stepcast {

// A process of PyTorch with CUDA's libraries, of which nothing is on any allocator's account.
struct ProcessContext {
    KEY(Bytes, bytes, {}, "what it holds of the device", 0, 1e12);
    KEY(std::string, source, {}, "where this is said");
};

// cuBLAS takes it from PyTorch's allocator, once a thread and stream.
struct ProductWorkspace {
    KEY(int, capability, 0, "least compute capability; 0 = of other makers' devices, too", 0, 1000);
    KEY(Bytes, bytes, {}, "of one thread and stream", 0, 1e12);
    KEY(std::string, source, {}, "where this is said");
};

// Buffers of NCCL's connections. A connection joins two ranks on one channel, one way.
struct NcclBuffers {
    KEY(int, version, 0, "the one that runs, as NCCL_VERSION_CODE of nccl.h", 0, 10'000'000);
    KEY(int, lazy_from, 0, "version that connects an algorithm when it first runs", 0, 10'000'000);
    KEY(Bytes, ll, {}, "protocol LL", 0, 1e12);
    KEY(Bytes, ll128, {}, "protocol LL128", 0, 1e12);
    KEY(Bytes, simple, {}, "protocol Simple: NCCL_BUFFSIZE", 0, 1e12);
    KEY(Bytes, granule, {}, "connections within a node take whole ones of these", 0, 1e12);
    KEY(Bytes, in_switch, {}, "reduction in the switch: of a channel and rank, each way", 0, 1e12);
    KEY(Bytes, pool, {}, "sends and receives between nodes: of all peers, each way", 0, 1e12);
    KEY(int, net_peer, 0, "channels to a peer where some are on other nodes", 0, 64);
    KEY(std::string, source, {}, "where this is said");
};

// Channels of a communicator.
struct NcclChannels {
    KEY(int, capability, 0, "least compute capability", 0, 1000);
    KEY(bool, linked, true, "NVLink joins the ranks of a node");
    KEY(int, node, 0, "collectives within a node", 0, 64);
    KEY(int, nic, 0, "collectives between nodes: of each rank that a node has", 0, 64);
    KEY(int, in_switch, 0, "reduction in the switch", 0, 64);
    KEY(int, peer, 0, "sends to a rank of the same node", 0, 64);
    KEY(std::string, source, {}, "where this is said");
};

// Launches of an eager layer.
struct LayerLaunches {
    KEY(int, forward, 0, "kernels of a forward", 0, 1000);
    KEY(int, backward, 0, "kernels of a backward", 0, 1000);
    KEY(int, collective, 0, "of a collective, with events", 0, 1000);
    KEY(std::string, source, {}, "where this is said");
};
const LayerLaunches& layer_launches();

// Zeros where no rule is of the device. Machines of other makers, of which these rules say nothing,
// state cluster.overheads.context.
Bytes context_in(const Gpu& gpu);
Bytes product_workspace(const Gpu& gpu);
const NcclBuffers& nccl_buffers();
const NcclChannels& nccl_channels(const Gpu& gpu, bool linked);

}  // namespace stepcast
