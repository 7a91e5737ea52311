// One node as it describes itself, gathered from several files, and the cluster file that it makes.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

inline constexpr int most_nvlinks = 1000;  // of a GPU: beyond any, and the links of a node can be counted

// What is not told stays 0 or empty.
struct Machine {
    int gpus = 0;
    std::string gpu;            // name of the device, as a file or an option says it
    std::string pci;            // "10de:2330", vendor and number of the device
    int sm = 0;                 // compute capability: 90
    Bytes memory;               // of one device
    int nvlinks = 0;            // from one GPU, to all others together
    bool links_told = true;     // false: a template without NVLink elements
    bool paired = false;        // nvlinks join GPUs two by two
    bool meshed = false;        // they reach some of the others only
    BytesPerSecond nvlink;      // of one rank and direction, all its links
    BytesPerSecond pcie;        // of one rank and direction
    BytesPerSecond socket;      // between two sockets
    int numa_nodes = 0;
    int nics = 0, other_nics = 0;  // for computation; storage and management
    BytesPerSecond nic;            // of one
    std::vector<std::string> from;   // "topo.txt: 8 GPUs, all pairs NV18 .."
    std::vector<std::string> notes;  // what had to be left open or assumed

    // Of a list of devices that speaks of no links: where no other file did, they stay those of the device's preset.
    void count_devices(int listed, const std::string& path);
};

// Of a device that no file describes: eight in a node, with a NIC each.
Machine usual_node();

// Each adds what its file says. Throw ConfigError with the place of what is not understood.
void read_topology_matrix(const std::string& text, const std::string& path, Machine& machine);  // nvidia-smi topo -m
void read_nccl_topology(const std::string& text, const std::string& path, Machine& machine);
void read_nvidia_smi(const std::string& text, const std::string& path, Machine& machine);  // nvidia-smi -q -x
void read_lspci(const std::string& text, const std::string& path, Machine& machine);       // lspci, with or without -nn

struct MachineFile {
    std::string text;  // a cluster file
    std::vector<std::string> report;
};
// Datasheet of the GPU from the preset that has it; constants too where the machine is that preset's, else priors. `gpu`
// names the device where the files do not, or better.
MachineFile cluster_of_machine(const Machine& machine, const std::string& name, const std::string& gpu);

}  // namespace stepcast
