#include "model/workload.h"

#include "model/names.h"

namespace stepcast {
namespace {

constexpr std::array<Named<Optimizer>, 4> optimizers{
    {{Optimizer::none, "none"}, {Optimizer::sgd, "sgd"}, {Optimizer::adam, "adam"}, {Optimizer::lamb, "lamb"}}};
constexpr std::array<Named<Norm>, 2> norms{{{Norm::layernorm, "layernorm"}, {Norm::rmsnorm, "rmsnorm"}}};
constexpr std::array<Named<AttentionKind>, 5> attention_kinds{{{AttentionKind::plain, "plain"},
                                                               {AttentionKind::flash, "flash"},
                                                               {AttentionKind::flash2, "flash2"},
                                                               {AttentionKind::triton, "triton"},
                                                               {AttentionKind::mla, "mla"}}};
constexpr std::array<Named<Positions>, 4> position_kinds{{{Positions::none, "none"},
                                                          {Positions::learned, "learned"},
                                                          {Positions::rotary, "rotary"},
                                                          {Positions::relative, "relative"}}};
constexpr std::array<Named<Activation>, 3> activations{
    {{Activation::gelu, "gelu"}, {Activation::gelu_steps, "gelu_steps"}, {Activation::relu, "relu"}}};
constexpr std::array<Named<Head>, 2> heads{{{Head::tokens, "tokens"}, {Head::span, "span"}}};
constexpr std::array<Named<Workload::Kind>, 4> kinds{{{Workload::Kind::moe_layer, "moe_layer"},
                                                      {Workload::Kind::mlp, "mlp"},
                                                      {Workload::Kind::transformer, "transformer"},
                                                      {Workload::Kind::coca, "coca"}}};

}  // namespace

std::string_view to_string(Optimizer optimizer) { return name_of(optimizers, optimizer); }
Optimizer parse_optimizer(std::string_view text) { return value_named(optimizers, text, "an optimizer"); }

std::string_view to_string(Norm norm) { return name_of(norms, norm); }
Norm parse_norm(std::string_view text) { return value_named(norms, text, "a norm"); }

std::string_view to_string(AttentionKind kind) { return name_of(attention_kinds, kind); }
AttentionKind parse_attention_kind(std::string_view text) {
    return value_named(attention_kinds, text, "an attention kind");
}

std::string_view to_string(Positions positions) { return name_of(position_kinds, positions); }
Positions parse_positions(std::string_view text) { return value_named(position_kinds, text, "a position encoding"); }

std::string_view to_string(Activation activation) { return name_of(activations, activation); }
Activation parse_activation(std::string_view text) { return value_named(activations, text, "an activation"); }

std::string_view to_string(Head head) { return name_of(heads, head); }
Head parse_head(std::string_view text) { return value_named(heads, text, "a head"); }

std::string_view to_string(Workload::Kind kind) { return name_of(kinds, kind); }
Workload::Kind parse_workload_kind(std::string_view text) { return value_named(kinds, text, "a workload kind"); }

}  // namespace stepcast
