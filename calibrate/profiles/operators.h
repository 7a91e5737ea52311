// What an operator of PyTorch computes, from the sizes that its profiler recorded. Internal to calibrate/profiles.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/profiles/profile.h"

namespace stepcast {

// "Input Dims", "Input type", "Input Strides" and, of attention, "Concrete Inputs" of one call, as JSON without blanks; empty
// where not recorded.
struct OperatorInputs {
    std::string dims, types, strides, concrete = {};
    friend auto operator<=>(const OperatorInputs&, const OperatorInputs&) = default;
};

bool is_product(std::string_view op);
bool is_attention(std::string_view op);
// A product, attention, or a pass over memory whose output follows from its inputs (element-wise, in place, norm, softmax); nothing
// of others, and when the sizes are missing or are none of it.
std::optional<OperatorCall> sized_operator(std::string_view op, const OperatorInputs& inputs);
// Elements and type of the first tensor: what a collective's operator moves.
std::optional<CollectiveCall> collective_of(std::string_view op, const OperatorInputs& inputs);

std::vector<int> members_of(const CollectiveCall& call);  // empty where not all are told

// Which ranks of the group a send or receive of `rank` joins: source and target, where the peer is recorded. Both sides are then
// one operation, "send_recv".
void tell_pair(CollectiveCall& call, int rank, int world);

std::optional<Dtype> dtype_of_torch(std::string_view type);  // "c10::BFloat16", "BFloat16", "float"
double element_bytes(std::string_view type);                 // 0 when it is no tensor's type

}  // namespace stepcast
