#include "import/profiles/operators.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "import/profiles/json_numbers.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

using Json = nlohmann::json;

struct TypeName {
    std::string_view torch;
    double bytes;
    std::optional<Dtype> dtype;
};
// Operators have the C++ names (some in c10::), collectives the short names.
constexpr std::array types = {
    TypeName{"float", 4, Dtype::fp32},          TypeName{"double", 8, std::nullopt},
    TypeName{"BFloat16", 2, Dtype::bf16},       TypeName{"Half", 2, Dtype::fp16},
    TypeName{"Float8_e4m3fn", 1, Dtype::fp8},   TypeName{"Float8_e5m2", 1, Dtype::fp8},
    TypeName{"Float8_e4m3fnuz", 1, Dtype::fp8}, TypeName{"Float", 4, Dtype::fp32},
    TypeName{"Double", 8, std::nullopt},        TypeName{"int", 4, std::nullopt},
    TypeName{"Int", 4, std::nullopt},           TypeName{"long", 8, std::nullopt},
    TypeName{"long int", 8, std::nullopt},      TypeName{"Long", 8, std::nullopt},
    TypeName{"short", 2, std::nullopt},         TypeName{"Short", 2, std::nullopt},
    TypeName{"bool", 1, std::nullopt},          TypeName{"Bool", 1, std::nullopt},
    TypeName{"unsigned char", 1, std::nullopt}, TypeName{"Byte", 1, std::nullopt},
    TypeName{"signed char", 1, std::nullopt},   TypeName{"Char", 1, std::nullopt}};

const TypeName* type_named(std::string_view name) {
    if (name.starts_with("c10::")) name.remove_prefix(5);
    const auto at = std::ranges::find(types, name, &TypeName::torch);
    return at == types.end() ? nullptr : at;
}

// Sizes, strides and types of a call, one entry for each argument.
struct OperatorArguments {
    Json dims, types, strides;
    explicit OperatorArguments(const OperatorInputs& inputs)
        : dims(Json::parse(inputs.dims, nullptr, false)),
          types(Json::parse(inputs.types, nullptr, false)),
          strides(Json::parse(inputs.strides, nullptr, false)) {}

    // Sizes of a tensor argument; empty for a scalar, a list of tensors, or no argument.
    [[nodiscard]] std::vector<long> sizes(std::size_t i) const { return list(dims, i); }
    [[nodiscard]] std::vector<long> stride(std::size_t i) const { return list(strides, i); }
    [[nodiscard]] std::string type(std::size_t i) const {
        return types.is_array() && i < types.size() && types[i].is_string()
                   ? types[i].get<std::string>()
                   : "";
    }
    [[nodiscard]] std::size_t count() const { return dims.is_array() ? dims.size() : 0; }

private:
    static std::vector<long> list(const Json& of, std::size_t i) {
        if (!of.is_array() || i >= of.size() || !of[i].is_array()) return {};
        std::vector<long> sizes;
        for (const Json& size : of[i]) {
            const auto elements = whole_number<long>(size);
            if (!elements) return {};
            sizes.push_back(*elements);
        }
        return sizes;
    }
};

struct ProductRule {
    std::string_view op;
    std::size_t a, b;  // indices of the two matrices among the arguments
};
constexpr std::array product_rules = {
    ProductRule{"aten::mm", 0, 1},         ProductRule{"aten::addmm", 1, 2},
    ProductRule{"aten::bmm", 0, 1},        ProductRule{"aten::baddbmm", 1, 2},
    ProductRule{"aten::_scaled_mm", 0, 1}, ProductRule{"aten::addmm_", 1, 2},
    ProductRule{"aten::baddbmm_", 1, 2}};

// Whether a matrix is stored transposed: its second to last stride is 1 and its last is not.
bool transposed(const std::vector<long>& strides) {
    const std::size_t n = strides.size();
    return n >= 2 && strides[n - 1] != 1 && strides[n - 2] == 1;
}

double count(const std::vector<long>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), 1.0,
                           [](double a, long b) { return a * real(b); });
}

double bytes_of(const OperatorArguments& args, std::size_t i) {
    const auto sizes = args.sizes(i);
    return sizes.empty() ? 0 : count(sizes) * element_bytes(args.type(i));
}

// Bytes of all tensor arguments together, and of the largest one.
std::pair<double, double> tensor_bytes(const OperatorArguments& args) {
    double sum = 0, most = 0;
    for (std::size_t i = 0; i < args.count(); ++i) {
        sum += bytes_of(args, i);
        most = std::max(most, bytes_of(args, i));
    }
    return {sum, most};
}

// The index of the argument that states whether an attention operator is causal.
struct CausalRule {
    std::string_view op;
    std::size_t argument;
};
constexpr std::array causal_rules = {
    CausalRule{"aten::_flash_attention_forward", 8},
    CausalRule{"aten::_flash_attention_backward", 11},
    CausalRule{"aten::_scaled_dot_product_flash_attention", 4},
    CausalRule{"aten::_scaled_dot_product_flash_attention_backward", 11},
    CausalRule{"aten::_scaled_dot_product_efficient_attention", 6},
    CausalRule{"aten::_scaled_dot_product_efficient_attention_backward", 11},
    CausalRule{"aten::_scaled_dot_product_cudnn_attention", 6},
    CausalRule{"aten::_scaled_dot_product_cudnn_attention_backward", 14}};

std::optional<bool> causal_of(std::string_view op, const std::string& concrete) {
    const Json values = Json::parse(concrete, nullptr, false);
    for (const CausalRule& rule : causal_rules)
        if (rule.op == op && values.is_array() && rule.argument < values.size() &&
            values[rule.argument].is_string()) {
            if (values[rule.argument] == "True") return true;
            if (values[rule.argument] == "False") return false;
        }
    return std::nullopt;
}

// Passes that read all their inputs and write as much as the largest of them, by the kind that cost
// laws use for them.
struct PassRule {
    std::string_view kind;
    std::span<const std::string_view> ops;
};
constexpr std::string_view additions[] = {
    "aten::add",           "aten::add_",          "aten::sub",
    "aten::mul",           "aten::mul_",          "aten::div",
    "aten::gelu_backward", "aten::silu_backward", "aten::threshold_backward"};
constexpr std::string_view activations[] = {"aten::gelu", "aten::silu",    "aten::relu",
                                            "aten::tanh", "aten::sigmoid", "aten::exp",
                                            "aten::neg",  "aten::rsqrt"};
constexpr std::string_view softmaxes[] = {"aten::_softmax", "aten::_log_softmax"},
                           norms[] = {"aten::native_layer_norm"};
constexpr PassRule one_output[] = {
    {"add", additions}, {"gelu", activations}, {"softmax", softmaxes}, {"layernorm", norms}};

std::optional<OperatorCall> product_of(const ProductRule& rule, const OperatorArguments& args,
                                       OperatorCall call) {
    const auto a = args.sizes(rule.a), b = args.sizes(rule.b);
    if (a.size() != b.size() || (a.size() != 2 && a.size() != 3)) return std::nullopt;
    const bool batched = a.size() == 3;
    call.dtype = args.type(rule.a);
    const auto dtype = dtype_of_torch(call.dtype);
    call.known = dtype.has_value();
    Gemm gemm;
    gemm.dtype = dtype.value_or(Dtype::fp32);
    gemm.batch = batched ? a[0] : 1;
    gemm.m = a[batched ? 1 : 0];
    gemm.k = a[batched ? 2 : 1];
    gemm.n = b[batched ? 2 : 1];
    if (std::min({gemm.m, gemm.n, gemm.k, gemm.batch}) < 1) return std::nullopt;
    call.layout_known = !args.stride(rule.a).empty();
    const bool ta = transposed(args.stride(rule.a)), tb = transposed(args.stride(rule.b));
    gemm.layout = ta ? Gemm::Layout::tn : tb ? Gemm::Layout::nt : Gemm::Layout::nn;
    gemm.alignment = alignment_of(gemm);
    call.work = gemm;
    return call;
}

// Queries are [batch, heads, tokens, width] (scaled_dot_product family) or [batch, tokens, heads,
// width]; a backward's argument 0 is a gradient.
std::optional<OperatorCall> attention_of(const OperatorArguments& args, const std::string& concrete,
                                         OperatorCall call) {
    const bool backward = has(call.op, "backward");
    const auto q = args.sizes(backward ? 1 : 0), k = args.sizes(backward ? 2 : 1);
    const auto dtype = dtype_of_torch(call.dtype);
    const auto causal = causal_of(call.op, concrete);  // it halves the arithmetic
    if (q.size() != 4 || k.size() != 4 || !dtype || !causal) return std::nullopt;
    const bool heads_first = has(call.op, "scaled_dot_product");
    const std::size_t heads = heads_first ? 1 : 2, tokens = heads_first ? 2 : 1;
    call.work = Attention{.batch = q[0],
                          .heads = q[heads],
                          .seq_q = q[tokens],
                          .seq_k = k[tokens],
                          .head_dim = q[3],
                          .causal = *causal,
                          .backward = backward,
                          .dtype = *dtype,
                          .flash = true};
    call.kv_heads = k[heads];
    return call;
}

}  // namespace

bool is_product(std::string_view op) { return contains(product_rules, op, &ProductRule::op); }

bool is_attention(std::string_view op) {
    return op == "aten::_efficient_attention_forward" ||
           op == "aten::_efficient_attention_backward" ||
           contains(causal_rules, op, &CausalRule::op);
}

std::optional<Dtype> dtype_of_torch(std::string_view type) {
    const TypeName* named = type_named(type);
    return named == nullptr ? std::nullopt : named->dtype;
}

double element_bytes(std::string_view type) {
    const TypeName* named = type_named(type);
    return named == nullptr ? 0 : named->bytes;
}

std::optional<OperatorCall> sized_operator(std::string_view op, const OperatorInputs& inputs) {
    if (inputs.dims.empty()) return std::nullopt;
    const OperatorArguments args(inputs);
    OperatorCall call{std::string(op), args.type(0), {}};
    if (const auto rule = std::ranges::find(product_rules, op, &ProductRule::op);
        rule != product_rules.end())
        return product_of(*rule, args, call);
    if (is_attention(op)) return attention_of(args, inputs.concrete, call);
    double bytes = 0;
    if (op == "aten::copy_") {
        call.kind = "copy";
        bytes = bytes_of(args, 0) + bytes_of(args, 1);
    }
    for (const PassRule& rule : one_output)
        if (contains(rule.ops, op)) {
            const auto [sum, most] = tensor_bytes(args);
            call.kind = rule.kind;
            bytes = sum + most;
        }
    if (!(bytes > 0)) return std::nullopt;
    call.work = MemoryPass{Bytes(bytes), Bytes(0)};
    return call;
}

std::optional<CollectiveCall> collective_of(std::string_view op, const OperatorInputs& inputs) {
    CollectiveCall call;
    const auto colon = op.rfind(':');
    call.op = colon == std::string_view::npos ? op : op.substr(colon + 1);
    call.from_kernel = false;
    const OperatorArguments args(inputs);
    for (std::size_t i = 0; i < args.count(); ++i) {
        const auto sizes = args.sizes(i);
        if (sizes.empty() || element_bytes(args.type(i)) == 0) continue;
        call.dtype = args.type(i);
        call.in_elements = call.out_elements = count(sizes);
        break;
    }
    return call;
}

std::vector<int> members_of(const CollectiveCall& call) {
    const Json list = Json::parse(call.members, nullptr, false);
    std::vector<int> ranks;
    if (!list.is_array() || (call.ranks > 0 && list.size() != as_index(call.ranks))) return {};
    for (const Json& rank : list) {
        const auto number = whole_number<int>(rank);
        if (!number || *number < 0) return {};
        ranks.push_back(*number);
    }
    return ranks;
}

// PyTorch states the peer's rank within the group; a number that cannot be one is taken as a rank
// of the job.
void tell_pair(CollectiveCall& call, int rank, int world) {
    const bool sends = call.op == "send" || call.op.starts_with("send ");
    const int peer = sends ? call.target : call.source;
    call.source = call.target = -1;
    std::vector<int> members = members_of(call);
    if (members.empty() && world > 0 && call.ranks == world) {
        members.resize(as_index(std::min(world, 1 << 20)));
        std::iota(members.begin(), members.end(), 0);
    }
    const auto place = [&](int of) {
        const auto at = std::ranges::find(members, of);
        return at == members.end() ? -1 : as_int(at - members.begin());
    };
    const int own = place(rank);
    const int other =
        peer >= 0 && peer < as_int(members.size()) && peer != own ? peer : place(peer);
    if (own < 0 || other < 0 || own == other) return;
    call.source = sends ? own : other;
    call.target = sends ? other : own;
    call.op = "send_recv";
    call.in_elements = call.out_elements = std::max(call.in_elements, call.out_elements);
}

}  // namespace stepcast
