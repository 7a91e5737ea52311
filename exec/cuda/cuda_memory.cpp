#include "exec/cuda/cuda_memory.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "exec/cuda/attention.h"
#include "exec/cuda/check.h"
#include "exec/cuda/library_pass.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/graph/op.h"

namespace stepcast {

std::size_t size_of(Element element) {
    switch (element) {
        case Element::fp32: return 4;
        case Element::fp16:
        case Element::bf16: return 2;
        case Element::fp8: return 1;
    }
    throw std::logic_error("size_of: unknown element");
}

Element element_of(Dtype dtype) {
    switch (dtype) {
        case Dtype::fp32:
        case Dtype::tf32: return Element::fp32;
        case Dtype::fp16: return Element::fp16;
        case Dtype::bf16: return Element::bf16;
        case Dtype::fp8: return Element::fp8;
        default:
            throw ConfigError(fmt::format("execute: kernels in {} are not run; choose fp8 or bf16",
                                          to_string(dtype)));
    }
}

Element result_of(Dtype dtype) { return dtype == Dtype::fp8 ? Element::bf16 : element_of(dtype); }
Element score_element(Dtype dtype) { return result_of(dtype); }

long stored_rows(const GroupedGemm& op, long rows) {
    constexpr long step = 16;
    return op.dtype == Dtype::fp8 && op.weight_gradient ? (rows + step - 1) / step * step : rows;
}

namespace {

// Most operands are those of the host, `floats`, multiplied by the size of their elements.
struct Needs {
    std::size_t count;
    const Footprint& floats;

    Need operator()(const Gemm& op) const {
        return {element_of(op.dtype),
                scaled(floats, bytes(op.dtype), op.accumulate ? 4 : result_bytes(op.dtype))};
    }
    Need operator()(const GroupedGemm& op) const {
        GroupedGemm stored = op;
        for (long& rows : stored.rows) rows = stored_rows(op, rows);
        return {element_of(op.dtype),
                scaled(footprint(stored, 0, 1), bytes(op.dtype), result_bytes(op.dtype))};
    }
    // Other ranks fetch from the start of the inputs, so the inputs hold what is moved. What
    // arrives lies behind the result.
    Need operator()(const FusedGemm& op) const {
        const double moved = real(op.remote_blocks) * op.remote_bytes_per_block.si();
        Footprint all = scaled(floats, bytes(op.dtype), result_bytes(op.dtype));
        all.inputs[1] = std::max(all.inputs[1], moved - all.inputs[0]);
        all.outputs = {std::max(all.outputs[0], moved), moved};
        return {element_of(op.dtype), all};
    }
    // Through memory: the scores of all heads, which a backward also reads, and keys and values of
    // every head. By one kernel: one number for each row of scores. The width of values may differ.
    Need operator()(const Attention& op) const {
        const Element element = score_element(op.dtype);
        const bool fused = runs_fused(op);
        const double size = real(size_of(element)), heads = area(op.batch, op.heads) * size,
                     shared = fused && op.kv_heads > 0 ? area(op.batch, op.kv_heads) * size : heads;
        const long values = op.value_dim > 0 ? op.value_dim : op.head_dim;
        const double q = heads * area(op.seq_q, op.head_dim),
                     k = shared * area(op.seq_k, op.head_dim);
        const double v = shared * area(op.seq_k, values), o = heads * area(op.seq_q, values);
        const double rows = 4 * area(op.batch, op.heads) * real(op.seq_q);
        if (fused && op.backward) return {element, {{q, k, v, o, o, rows}, {rows, q, k, v}}};
        if (fused) return {element, {{q, k, v}, {o, rows}}};
        const double scores = heads * area(op.seq_q, op.seq_k);
        if (op.backward) return {element, {{q, k, v, scores, o}, {scores, q, k, v}}};
        return {element, {{q, k, v}, {scores, o}}};
    }
    // NCCL needs both buffers on every rank, and equal shares.
    Need operator()(const OneOf<Broadcast, Reduce> auto& op) const {
        const double all = 4 * real(float_count(op.bytes));
        return {{}, {{all}, {all}}};
    }
    Need operator()(const AllGather&) const {
        const double share = 4 * floats.inputs[0];
        return {{}, {{share}, {share * real(count)}}};
    }
    Need operator()(const ReduceScatter&) const {
        const double share = 4 * floats.outputs[0];
        return {{}, {{share * real(count)}, {share}}};
    }
    Need operator()(const Barrier&) const { return {{}, {{4}, {4}}}; }
    Need operator()(const OneOf<MemoryPass, AllReduce, AllToAll, SendRecv, HostWork> auto&) const {
        return {{}, scaled(floats, 4, 4)};
    }

    static Footprint scaled(Footprint all, double input, double output) {
        for (double& operand : all.inputs) operand *= input;
        for (double& operand : all.outputs) operand *= output;
        return all;
    }
    static double bytes(Dtype dtype) { return real(size_of(element_of(dtype))); }
    static double result_bytes(Dtype dtype) { return real(size_of(result_of(dtype))); }
};

// the most operands of one op; each is rounded up to the alignment
constexpr double most_operands = 16;

struct Largest {
    std::array<double, element_count> inputs{};
    std::array<std::size_t, element_count> ops{};  // how many ops use the element
    double untyped = 0, output = 0, window = 0, widest = 0;
    TaskId widest_task = 0;
    std::array<bool, lane_count> products{};
};

Largest largest_needs(const TaskGraph& graph, int rank) {
    Largest largest;
    for (TaskId task = 0; task < graph.size(); ++task) {
        const std::vector<int> ranks = participants(graph.places(task));
        const auto self = std::find(ranks.begin(), ranks.end(), rank);
        if (self == ranks.end()) continue;
        const Need need = need_of(graph.op(task), as_index(self - ranks.begin()), ranks.size());
        const double input = need.bytes.input(), output = need.bytes.output();
        double& most = need.element ? largest.inputs[as_index(*need.element)] : largest.untyped;
        most = std::max(most, input);
        if (need.element) ++largest.ops[as_index(*need.element)];
        largest.output = std::max(largest.output, output);
        if (input + output > largest.widest) {
            largest.widest = input + output;
            largest.widest_task = task;
        }
        if (is_compute(graph.op(task)))
            for (const Place& place : graph.places(task))
                if (place.rank() == rank) largest.products[as_index(place.lane())] = true;
        if (const auto* fused = std::get_if<FusedGemm>(&graph.op(task));
            fused != nullptr && graph.rank_count() > 1 &&
            fused->transfer == FusedGemm::Transfer::scatter)
            largest.window = std::max(
                largest.window, std::ceil(real(fused->remote_blocks) / (graph.rank_count() - 1)) *
                                    fused->remote_bytes_per_block.si());
    }
    return largest;
}

std::size_t rounded(double bytes) {
    return (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
}

}  // namespace

Need need_of(const Op& op, std::size_t index, std::size_t count) {
    return std::visit(Needs{count, footprint(op, index, count)}, op);
}

CudaPlan plan_cuda_memory(const TaskGraph& graph, int rank, Bytes cache, Bytes available,
                          Bytes whole) {
    Largest largest = largest_needs(graph, rank);
    const auto most_used = std::max_element(largest.ops.begin(), largest.ops.end());
    CudaPlan plan;
    plan.common =
        *most_used > 0 ? static_cast<Element>(most_used - largest.ops.begin()) : Element::fp32;
    const auto common = as_index(plan.common);
    largest.inputs[common] = std::max({largest.inputs[common], largest.untyped, 1.0});
    const double slack = most_operands * real(alignment);
    const double cold = 1.5 * cache.si();
    double sum = 0;
    for (double& input : largest.inputs)
        if (input > 0) sum += input = std::max(input, cold) + slack;
    largest.output = std::max(largest.output, cold) + slack;
    plan.workspaces = as_index(std::count(largest.products.begin(), largest.products.end(), true)) *
                      workspace_bytes;
    plan.scratch = LibraryPasses(graph, rank, plan.common).scratch();
    const double windows = (largest.window + real(alignment)) * graph.rank_count();
    const Bytes needed(sum + largest.output + windows + real(plan.workspaces + plan.scratch));
    if (!(needed <= available))
        throw ConfigError(fmt::format(
            "execute: rank {} needs {}, the GPU has {} free of {} (largest task {} \"{}\"); take "
            "smaller "
            "shapes or end what else runs there",
            rank, to_string(needed), to_string(available), to_string(whole), largest.widest_task,
            graph.size() > 0 ? graph.name(largest.widest_task) : std::string_view()));
    for (std::size_t i = 0; i < element_count; ++i) plan.inputs[i] = rounded(largest.inputs[i]);
    plan.output = rounded(largest.output);
    plan.window = rounded(largest.window);
    return plan;
}

CudaBlock::CudaBlock(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    void* data = nullptr;
    check(cudaMalloc(&data, bytes));
    data_.reset(static_cast<char*>(data));
}

void CudaRegion::take(std::span<const double> bytes, std::span<char*> places) {
    const double all = std::accumulate(bytes.begin(), bytes.end(), most_operands * real(alignment));
    if (real(next_) + all > real(size())) next_ = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (real(next_) + bytes[i] > real(size()))
            throw std::logic_error(
                fmt::format("a buffer of {} bytes was taken at {} of {}", bytes[i], next_, size()));
        places[i] = data() + next_;
        next_ += rounded(bytes[i]);
    }
}

CudaMemory::CudaMemory(const CudaPlan& plan, int ranks, std::uint64_t seed, cudaStream_t stream)
    : output(plan.output),
      window(plan.window * as_index(ranks)),
      scratch(plan.scratch),
      workspaces(plan.workspaces),
      sink(alignment),
      common(plan.common) {
    for (std::size_t i = 0; i < element_count; ++i) {
        if (plan.inputs[i] == 0) continue;
        inputs[i] = CudaRegion(plan.inputs[i]);
        const auto element = static_cast<Element>(i);
        check(fill_random(inputs[i].data(), element, plan.inputs[i] / size_of(element), seed + i,
                          stream));
    }
    if (plan.scratch > 0) check(cudaMemset(scratch.data(), 0, plan.scratch));
    check(fill_random(output.data(), Element::fp32, plan.output / sizeof(float),
                      seed + element_count, stream));
    check(cudaStreamSynchronize(stream));
}

CudaOperands CudaMemory::take(const Need& need) {
    CudaOperands at;
    input(need.element.value_or(common)).take(need.bytes.inputs, at.in);
    output.take(need.bytes.outputs, at.out);
    return at;
}

}  // namespace stepcast
