// Words of the tables that `import` writes from profiles and `calibrate` reads.
#pragma once

#include <string_view>

namespace stepcast {

// The column `layout`, in the order of Gemm::Layout. "NT": A as it is, B transposed. Linear layers
// never use "TT" or others.
inline constexpr std::string_view layout_names[] = {"NT", "NN", "TN"};

// Kinds of rows in the table of launches, as import names them.
inline constexpr std::string_view launch_kind = "launch call",
                                  layer_kind = "host time of a layer beside its launches",
                                  single_passes = "passes, operator by operator",
                                  compiled_passes = "passes, compiled";

}  // namespace stepcast
