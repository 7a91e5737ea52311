// One node as it describes itself in several files, and the cluster file made from it.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

// per GPU: more than any has, yet a node's links fit an int
inline constexpr int most_nvlinks = 1000;

// Values that no file states stay 0 or empty.
struct Machine {
    int gpus = 0;
    std::string gpu;         // name of the device in a file or an option
    std::string pci;         // "10de:2330", vendor and number of the device
    int sm = 0;              // compute capability: 90
    Bytes memory;            // of one device
    int nvlinks = 0;         // of the GPU with the most, as its file counts them
    bool links_told = true;  // false: a template without NVLink elements
    bool switched = false;   // the file names a switch
    // Links between each two GPUs: of 0 and 1, 0 and 2, .., 1 and 2, ... A matrix has those to a
    // switch here, which cluster_of_machine() tells apart. Empty: not told.
    std::vector<double> joints;
    BytesPerSecond pcie;    // per rank and direction
    BytesPerSecond socket;  // between two sockets
    int numa_nodes = 0;
    int nics = 0, other_nics = 0;    // NICs for computation; NICs for storage and management
    BytesPerSecond nic;              // rate of one NIC
    std::vector<std::string> from;   // "topo.txt: 8 GPUs, all pairs NV18 .."
    std::vector<std::string> notes;  // what was left open or assumed

    [[nodiscard]] double joint(int a, int b) const;  // of two GPUs; 0 where not told
    [[nodiscard]] int joint_links() const;           // of the GPU with the most
    // NVLinks join disjoint pairs, and there are more than two GPUs
    [[nodiscard]] bool paired() const;

    // Counts a list of devices that states no links. If no other file states them, the links are
    // those of the device's preset.
    void count_devices(int listed, const std::string& path);
};

// The node assumed for a device that no file describes: eight GPUs with one NIC each.
Machine usual_node();

struct MachineFile {
    std::string text;  // a cluster file
    std::vector<std::string> report;
};

// Datasheet values come from the preset that has the GPU. Constants come from it too if the machine
// equals that preset, else from priors. `gpu` names the device if the files do not, or not
// precisely.
MachineFile cluster_of_machine(const Machine& machine, const std::string& name,
                               const std::string& gpu);

}  // namespace stepcast
