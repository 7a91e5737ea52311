// Weights that are gathered before a pass, with those of the next one meanwhile, and freed after
// it: of whole units (FSDP), or with hooks at every module (DeepSpeed 0.19.8,
// runtime/zero/partitioned_param_coordinator.py:376).
// FSDP 2 gathers a unit in one tensor and copies that out to its parameters (FSDP 1's are views of
// it). In a forward it stays
// until the next unit has been gathered; in a backward it goes at once, and then the unit in front
// is gathered (torch 2.11, distributed/fsdp/_fully_shard/_fsdp_param_group.py: wait_for_unshard,
// pre_backward; _fsdp_state.py: _post_forward).
// Modules' weights stay if they are used again before
// reuse_distance other weights (:653). So weights of the last layers stay from the forward to the
// backward, and those of a tied table from one end of the model to the other. Every module's hook
// gathers more of what comes next while less is there than stage3_max_live_parameters (:426), in
// DeepSpeed by default as many as reuse_distance, and the backward's follow the forward's. Of one
// rank, too: what it gathers is a copy.
#pragma once

#include <map>

#include "sim/memory/tensor_recorder.h"

namespace stepcast {

// The parts in which a unit gathers its weights, in order.
struct UnitModules {
    std::string what;
    bool again = false;  // computed again before its backward
    std::vector<double> bytes;
    std::vector<double> parameters = {};  // to which they are copied out
    bool stays = false;                   // from its forward to its backward
};

// Of a unit's operators.
std::vector<double> module_bytes(const UnitTape& tape);

class GatheredWeights {
public:
    GatheredWeights(TensorRecorder& tensors, const std::vector<UnitModules>& units, bool tied,
                    double reuse_bytes);

    // Modules count from a unit's first one that has weights. A rerun is the forward in a backward.
    enum class Direction { forward, rerun, backward };
    void before(std::size_t unit, std::size_t module, Direction direction);
    void after(std::size_t unit, std::size_t module, Direction direction);

private:
    struct Module {
        std::string what;
        double bytes = 0;
        double distance = 0;  // bytes of weights between its forward and its next use
        std::vector<double> parameters = {};
        bool stays = false;
    };
    void gather(std::size_t module);
    void release(std::size_t module);
    void fetch_ahead(std::size_t unit, std::size_t own, Direction direction);
    void copy_out(std::size_t unit, Direction direction);
    void set_distances(const std::vector<UnitModules>& units);
    void share_table();

    TensorRecorder& tensors_;
    double reuse_bytes_, live_ = 0;
    std::vector<Module> modules_;
    std::vector<std::size_t> firsts_;
    std::map<std::size_t, TensorId> gathered_;
    TensorIds parameters_, staying_;
};

}  // namespace stepcast
