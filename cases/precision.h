// The element type that a row's precision column names. Internal to cases/.
#pragma once

#include <optional>
#include <string>

#include "model/dtype.h"

namespace stepcast {

// Of the operands of matrix products: "fp8 current scaling", "FP8-MX", "float8 (linears)" -> fp8; "NVFP4" -> fp4; "16-mixed"
// -> fp16. Empty where the text names none.
std::optional<Dtype> dtype_in(const std::string& precision);

}  // namespace stepcast
