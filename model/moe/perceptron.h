// Two linear layers with an activation between: a layer of an MLP, an expert, all experts of a rank.
#pragma once

#include <string>
#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast {

struct Perceptron {
    long hidden = 0, ffn = 0;
    Dtype dtype = Dtype::fp16;
};
struct NamedOp {
    std::string name;
    Op op;
};

// The kernels of its forward or backward as a script runs them, one for each product and for the activation, in order.
// `prefix`: of the forward products' names. Several `rows`: of several experts, whose products are one kernel.
std::vector<NamedOp> perceptron_kernels(const Perceptron& layers, Phase phase, const std::vector<long>& rows,
                                        const std::string& prefix = "", bool grouped = false);

}  // namespace stepcast
