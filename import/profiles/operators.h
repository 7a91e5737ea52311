// What an operator of PyTorch computes, derived from the sizes that its profiler recorded. Internal
// to calibrate/profiles.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/profiles/profile.h"

namespace stepcast {

// "Input Dims", "Input type", "Input Strides" and, for attention, "Concrete Inputs" of a call, as
// JSON without blanks; else empty.
struct OperatorInputs {
    std::string dims, types, strides, concrete = {};
    friend auto operator<=>(const OperatorInputs&, const OperatorInputs&) = default;
};

bool is_product(std::string_view op);
bool is_attention(std::string_view op);
// The call of a product, attention, or a pass over memory whose output size follows from its inputs
// (element-wise, in place, norm, softmax). nullopt for other operators and where sizes are missing
// or do not fit.
std::optional<OperatorCall> sized_operator(std::string_view op, const OperatorInputs& inputs);
// The collective of an operator: it moves the elements of the first tensor.
std::optional<CollectiveCall> collective_of(std::string_view op, const OperatorInputs& inputs);

std::vector<int> members_of(const CollectiveCall& call);  // empty unless all are known

// Sets source and target (ranks in the group) of a send or receive of `rank` if the peer is
// recorded. Both sides then are one "send_recv".
void tell_pair(CollectiveCall& call, int rank, int world);

std::optional<Dtype> dtype_of_torch(std::string_view type);  // "c10::BFloat16", "BFloat16", "float"
double element_bytes(std::string_view type);                 // 0 if it is no tensor type

}  // namespace stepcast
