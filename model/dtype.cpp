#include "model/dtype.h"

#include "model/names.h"

namespace stepcast {
namespace {

constexpr std::array<Named<Dtype>, 6> names{{{Dtype::fp32, "fp32"},
                                             {Dtype::tf32, "tf32"},
                                             {Dtype::fp16, "fp16"},
                                             {Dtype::bf16, "bf16"},
                                             {Dtype::fp8, "fp8"},
                                             {Dtype::fp4, "fp4"}}};

}  // namespace

Bytes size_of(Dtype dtype) {
    switch (dtype) {
        case Dtype::fp32:
        case Dtype::tf32: return Bytes(4);
        case Dtype::fp16:
        case Dtype::bf16: return Bytes(2);
        case Dtype::fp8: return Bytes(1);
        case Dtype::fp4: return Bytes(0.5);
    }
    throw std::logic_error("size_of: unknown dtype");
}

bool is_narrow(Dtype dtype) { return dtype == Dtype::fp8 || dtype == Dtype::fp4; }
Dtype between_products(Dtype dtype) { return is_narrow(dtype) ? Dtype::bf16 : dtype; }

std::string_view to_string(Dtype dtype) { return name_of(names, dtype); }
Dtype parse_dtype(std::string_view text) { return value_named(names, text, "a dtype"); }

}  // namespace stepcast
