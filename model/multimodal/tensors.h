// The parameters of a model of several towers, tensor by tensor, in the groups that its optimizer gets: for each
// layer the tensors that decay (matrices) and those that do not (biases, norms, positions), because each layer has a
// learning rate of its own; and how ZeRO cuts a group into pieces.
#pragma once

#include <string>
#include <vector>

#include "model/workload.h"

namespace stepcast {

struct ParameterTensor {
    std::string name;
    double elements = 0;
    std::string unit;  // the layer or end whose backward makes its gradient: "decoder.layer3", "text.start"
    friend bool operator==(const ParameterTensor&, const ParameterTensor&) = default;
};
struct ParameterGroup {
    std::string name;
    std::vector<ParameterTensor> tensors;
    friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

// As the layer-wise learning rates make them, then neighbours joined until there are workload.optimizer_groups. Throws
// ConfigError naming that key when there are fewer.
std::vector<ParameterGroup> parameter_groups(const Workload& workload);

// Elements of a group, of a list of groups; of the tensors whose name begins with `tower` and a dot.
double elements_of(const ParameterGroup& group);
double elements_of(const std::vector<ParameterGroup>& groups, std::string_view tower = "");
std::size_t tensors_of(const std::vector<ParameterGroup>& groups);

// ZeRO 1: a group is laid out flat, padded to a multiple of 2 x ranks elements, and cut into one piece a rank
// (DeepSpeed's stage_1_and_2). A tensor may lie on several ranks.
struct Slice {
    int rank = 0;
    double elements = 0;
    friend bool operator==(const Slice&, const Slice&) = default;
};
double piece_elements(const ParameterGroup& group, int ranks);                      // of each rank, with padding
std::vector<std::vector<Slice>> slices_of(const ParameterGroup& group, int ranks);  // of each tensor, in order
int tensors_on(const ParameterGroup& group, int ranks, int rank);                   // tensors that have a slice there

}  // namespace stepcast
