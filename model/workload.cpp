#include "model/workload.h"

#include "model/names.h"

namespace stepcast {
namespace {

constexpr std::array<Named<Optimizer>, 4> optimizers{
    {{Optimizer::none, "none"}, {Optimizer::sgd, "sgd"}, {Optimizer::adam, "adam"}, {Optimizer::lamb, "lamb"}}};
constexpr std::array<Named<Workload::Kind>, 2> kinds{
    {{Workload::Kind::moe_layer, "moe_layer"}, {Workload::Kind::mlp, "mlp"}}};

}  // namespace

std::string_view to_string(Optimizer optimizer) { return name_of(optimizers, optimizer); }
Optimizer parse_optimizer(std::string_view text) { return value_named(optimizers, text, "an optimizer"); }

std::string_view to_string(Workload::Kind kind) { return name_of(kinds, kind); }
Workload::Kind parse_workload_kind(std::string_view text) { return value_named(kinds, text, "a workload kind"); }

}  // namespace stepcast
