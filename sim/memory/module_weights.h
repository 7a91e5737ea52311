// Zero 3 with hooks at every module (DeepSpeed 0.19.8,
// runtime/zero/partitioned_param_coordinator.py): a module's weights are gathered before its pass,
// those of the next one meanwhile (:376), and freed after it, unless they are used again before
// reuse_distance other weights (:574). So weights of the last layers stay from the forward to the
// backward, and those of a tied table from one end of the model to the other. Of one rank, too:
// what it gathers is a copy.
#pragma once

#include <map>
#include <span>

#include "sim/memory/tensor_recorder.h"

namespace stepcast {

struct UnitPass {
    const UnitTape* tape = nullptr;
    bool again = false;  // computed again before its backward
};

// Weights of a unit's operators, in elements, in order.
std::vector<double> module_elements(const UnitTape& tape, Bytes element);

class ModuleWeights {
public:
    ModuleWeights(TensorRecorder& tensors, std::span<const UnitPass> units, bool tied,
                  Bytes element, double reuse_distance);

    // Modules count from a unit's first one that has weights. A rerun is the forward in a backward.
    enum class Direction { forward, rerun, backward };
    void before(std::size_t unit, std::size_t module, Direction direction);
    void after(std::size_t unit, std::size_t module, Direction direction);

private:
    struct Module {
        std::string what;
        double bytes = 0;
        double distance = 0;  // weights between its forward and its next use
    };
    void gather(std::size_t module);
    void release(std::size_t module);
    void set_distances(std::span<const UnitPass> units, Bytes element);
    void share_table(double layers);

    TensorRecorder& tensors_;
    double reuse_distance_;
    std::vector<Module> modules_;
    std::vector<std::size_t> firsts_;
    std::map<std::size_t, TensorId> gathered_;
};

}  // namespace stepcast
