#include "exec/cuda/cudnn_attention.h"

#include <cudnn_frontend.h>

#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "exec/cuda/attention.h"
#include "exec/cuda/check.h"
#include "exec/shared_library.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"

// What the frontend calls the library through (NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING).
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace stepcast {

namespace {

namespace fe = cudnn_frontend;
namespace graph = cudnn_frontend::graph;

enum Uid : std::int64_t { q, k, v, out, log_sums, d_out, d_q, d_k, d_v };

struct Plan {
    Attention op;
    std::string why;  // there is none
    std::shared_ptr<graph::Graph> steps;
    std::int64_t workspace = 0;
};

// Opened once for all ranks of the process; empty, or what is missing.
std::string open_library() {
    static const std::string missing = []() -> std::string {
        fe::cudnn_dlhandle = SharedLibrary("libcudnn.so.9").handle();
        if (fe::cudnn_dlhandle == nullptr) return "libcudnn.so.9 is not here";
        constexpr std::size_t oldest = 90000;
        if (const std::size_t version = fe::detail::get_backend_version(); version < oldest)
            return fmt::format("cuDNN {} is older than 9.0", version);
        return {};
    }();
    return missing;
}

fe::DataType_t type_of(Element element) {
    switch (element) {
        case Element::fp16: return fe::DataType_t::HALF;
        case Element::bf16: return fe::DataType_t::BFLOAT16;
        case Element::fp32:
        case Element::fp8: break;
    }
    throw ConfigError("it is used for 16-bit elements only");
}

void require(fe::error_t result) {
    if (result.is_bad()) throw DeviceError(result.get_message());
}

// The same masks as of the own kernel, or a ConfigError.
template <typename Attributes>
Attributes attributes_of(const FusedShape& shape) {
    const bool all = shape.windowed == shape.batch * shape.heads;
    if (shape.windowed > 0 && !(all && shape.causal))
        throw ConfigError(all ? "it has no window without a causal mask"
                              : "it has no window for a part of the heads");
    Attributes attributes;
    attributes.set_name("attention").set_attn_scale(shape.scale);
    if (shape.causal)
        attributes
            .set_diagonal_alignment(shape.seq_q == shape.seq_k
                                        ? fe::DiagonalAlignment_t::TOP_LEFT
                                        : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
            .set_diagonal_band_right_bound(0);
    if (shape.windowed > 0) attributes.set_diagonal_band_left_bound(as_int(shape.window));
    return attributes;
}

struct Builder {
    const FusedShape& shape;
    graph::Graph& steps;

    using Tensor = std::shared_ptr<graph::Tensor_attributes>;
    graph::Tensor_attributes& lay(graph::Tensor_attributes& tensor, Uid uid, std::int64_t heads,
                                  std::int64_t rows, std::int64_t width) const {
        return tensor.set_uid(uid)
            .set_dim({shape.batch, heads, rows, width})
            .set_stride({heads * rows * width, rows * width, width, 1});
    }
    [[nodiscard]] Tensor input(Uid uid, std::int64_t heads, std::int64_t rows,
                               std::int64_t width) const {
        graph::Tensor_attributes tensor;
        return steps.tensor(lay(tensor, uid, heads, rows, width));
    }
    void output(const Tensor& tensor, Uid uid, std::int64_t heads, std::int64_t rows,
                std::int64_t width) const {
        lay(*tensor, uid, heads, rows, width).set_output(true);
    }

    void forward() const {
        const auto [result, sums] =
            steps.sdpa(input(q, shape.heads, shape.seq_q, shape.width),
                       input(k, shape.kv_heads, shape.seq_k, shape.width),
                       input(v, shape.kv_heads, shape.seq_k, shape.value_width),
                       attributes_of<graph::SDPA_attributes>(shape).set_generate_stats(true));
        output(result, out, shape.heads, shape.seq_q, shape.value_width);
        output(sums, log_sums, shape.heads, shape.seq_q, 1);
        sums->set_data_type(fe::DataType_t::FLOAT);
    }
    void backward() const {
        const Tensor sums = input(log_sums, shape.heads, shape.seq_q, 1);
        sums->set_data_type(fe::DataType_t::FLOAT);
        const auto [of_q, of_k, of_v] =
            steps.sdpa_backward(input(q, shape.heads, shape.seq_q, shape.width),
                                input(k, shape.kv_heads, shape.seq_k, shape.width),
                                input(v, shape.kv_heads, shape.seq_k, shape.value_width),
                                input(out, shape.heads, shape.seq_q, shape.value_width),
                                input(d_out, shape.heads, shape.seq_q, shape.value_width), sums,
                                attributes_of<graph::SDPA_backward_attributes>(shape));
        output(of_q, d_q, shape.heads, shape.seq_q, shape.width);
        output(of_k, d_k, shape.kv_heads, shape.seq_k, shape.width);
        output(of_v, d_v, shape.kv_heads, shape.seq_k, shape.value_width);
    }
};

Plan plan_of(const Attention& op, cudnnHandle_t handle) {
    Plan plan{op, {}, std::make_shared<graph::Graph>(), 0};
    const FusedShape shape = fused_shape(op);
    plan.steps->set_io_data_type(type_of(shape.element))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const Builder builder{shape, *plan.steps};
    if (op.backward)
        builder.backward();
    else
        builder.forward();
    require(plan.steps->build(handle, {fe::HeurMode_t::A}));
    require(plan.steps->get_workspace_size(plan.workspace));
    return plan;
}

}  // namespace

struct CudnnAttention::State {
    cudnnHandle_t handle = nullptr;
    std::string missing;
    std::vector<Plan> plans;
    std::map<cudaStream_t, CudaBlock> workspaces;

    ~State() {
        if (handle != nullptr) fe::detail::destroy_handle(handle);
    }
    // null where the op was never prepared
    const Plan* find(const Attention& op) const {
        const auto found =
            std::ranges::find_if(plans, [&](const Plan& plan) { return plan.op == op; });
        return found == plans.end() ? nullptr : &*found;
    }
};

CudnnAttention::CudnnAttention() : state_(std::make_unique<State>()) {}
CudnnAttention::~CudnnAttention() = default;

std::string CudnnAttention::prepare(const Attention& op, cudaStream_t stream) {
    State& state = *state_;
    if (state.handle == nullptr && state.missing.empty()) {
        state.missing = open_library();
        if (state.missing.empty())
            if (const cudnnStatus_t status = fe::detail::create_handle(&state.handle);
                status != CUDNN_STATUS_SUCCESS)
                state.missing = fmt::format("cudnnCreate: status {}", as_int(status));
    }
    if (!state.missing.empty()) return state.missing;
    if (state.find(op) == nullptr) {
        try {
            state.plans.push_back(plan_of(op, state.handle));
        } catch (const std::exception& error) {  // the frontend throws what it likes
            state.plans.push_back({op, error.what(), nullptr, 0});
        }
    }
    const Plan& plan = *state.find(op);
    if (!plan.why.empty()) return plan.why;
    CudaBlock& workspace = state.workspaces[stream];
    const auto needed = as_index(plan.workspace);
    if (workspace.size() >= needed) return {};
    std::size_t available = 0, whole = 0;
    check(cudaMemGetInfo(&available, &whole));
    if (needed > available)
        return fmt::format("its workspace of {} does not fit", to_string(Bytes(real(needed))));
    workspace = CudaBlock(needed);
    return {};
}

void CudnnAttention::run(const Attention& op, const CudaOperands& at, cudaStream_t stream) {
    State& state = *state_;
    const Plan& plan = *state.find(op);
    std::unordered_map<std::int64_t, void*> places{{q, at.in[0]}, {k, at.in[1]}, {v, at.in[2]}};
    if (op.backward)
        places.insert({{out, at.in[3]},
                       {d_out, at.in[4]},
                       {log_sums, at.in[5]},
                       {d_q, at.out[1]},
                       {d_k, at.out[2]},
                       {d_v, at.out[3]}});
    else
        places.insert({{out, at.out[0]}, {log_sums, at.out[1]}});
    if (const cudnnStatus_t status = fe::detail::set_stream(state.handle, stream);
        status != CUDNN_STATUS_SUCCESS)
        throw DeviceError(fmt::format("cudnnSetStream: status {}", as_int(status)));
    require(plan.steps->execute(state.handle, places, state.workspaces.at(stream).data()));
}

std::string CudnnAttention::version() const {
    const std::size_t version = fe::detail::get_backend_version();
    return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace stepcast
