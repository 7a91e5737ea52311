// What visitors of an op may treat alike. They name one of these instead of catching all, so that an op that is added to the
// variant fits no visitor until somebody has said there what it is.
#pragma once

#include <concepts>
#include <optional>

#include "model/graph/op.h"

namespace stepcast {

template <typename T, typename... Of>
concept OneOf = (std::same_as<T, Of> || ...);
template <typename T>
concept ComputeOp = OneOf<T, Gemm, GroupedGemm, FusedGemm, Attention>;
template <typename T>  // needs every participant
concept ExchangeOp = OneOf<T, AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, SendRecv, Barrier>;
template <typename T>  // needs no other rank
concept LocalOp = ComputeOp<T> || OneOf<T, MemoryPass, HostWork>;

std::optional<Dtype> dtype_of(const Op& op);  // of a compute op's operands; none for what only moves bytes or waits

}  // namespace stepcast
