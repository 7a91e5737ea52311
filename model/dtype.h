// Element types of operands.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/units.h"

namespace stepcast {

enum class Dtype : std::uint8_t { fp32, tf32, fp16, bf16, fp8, fp4 };

Bytes size_of(Dtype dtype);  // storage of one element; tf32 is stored as fp32
// Fewer than 16 bits: operands of matrix products alone, everything between them is kept as `between_products`.
bool is_narrow(Dtype dtype);
Dtype between_products(Dtype dtype);
std::string_view to_string(Dtype dtype);
Dtype parse_dtype(std::string_view text);  // throws ConfigError listing the valid names

}  // namespace stepcast
