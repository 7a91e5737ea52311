#include "cases/row_parts.h"

#include <array>

#include "cases/cells.h"

namespace stepcast {

std::optional<Dtype> dtype_in(const std::string& precision) {
    // The narrowest that is named counts: "bf16 with fp8 linears" runs its products in fp8.
    constexpr std::array<std::pair<std::string_view, Dtype>, 17> names{{{"fp4", Dtype::fp4},
                                                                        {"float4", Dtype::fp4},
                                                                        {"fp8", Dtype::fp8},
                                                                        {"float8", Dtype::fp8},
                                                                        {"e4m3", Dtype::fp8},
                                                                        {"bf16", Dtype::bf16},
                                                                        {"bfloat16", Dtype::bf16},
                                                                        {"fp16", Dtype::fp16},
                                                                        {"float16", Dtype::fp16},
                                                                        {"16-mixed", Dtype::fp16},
                                                                        {"half", Dtype::fp16},
                                                                        {"amp", Dtype::fp16},
                                                                        {"mixed", Dtype::fp16},
                                                                        {"tf32", Dtype::tf32},
                                                                        {"fp32", Dtype::fp32},
                                                                        {"float32", Dtype::fp32},
                                                                        {"single", Dtype::fp32}}};
    const auto text = lower_case(precision);
    // "fp32 (TF32 state unknown)": frameworks of 2020 and 2021 ran fp32 products as TF32 where the device has it.
    if (contains(text, "fp32") && contains(text, "tf32")) return Dtype::tf32;
    for (const auto& [name, dtype] : names)
        if (contains(text, name)) return dtype;
    return std::nullopt;
}

}  // namespace stepcast
