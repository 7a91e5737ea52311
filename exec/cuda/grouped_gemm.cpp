#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "exec/cuda/check.h"
#include "exec/cuda/gemm.h"
#include "model/errors.h"

namespace stepcast {

namespace {

cudaDataType_t grouped_type(Dtype dtype) {
    switch (dtype) {
        case Dtype::fp32:
        case Dtype::tf32: return CUDA_R_32F;
        case Dtype::fp16: return CUDA_R_16F;
        case Dtype::bf16: return CUDA_R_16BF;
        default: throw std::logic_error("grouped_type: narrow types have a product for each group");
    }
}

int small(long value) {
    if (value > std::numeric_limits<int>::max())
        throw ConfigError(fmt::format("execute: a grouped GEMM with a dimension of {}, cuBLAS takes at most {}", value,
                                      std::numeric_limits<int>::max()));
    return static_cast<int>(value);
}

// One group in fp8. Packed groups begin at any multiple of sixteen bytes.
Product product_of_group(const GroupedGemm& op, long rows) {
    constexpr unsigned int packed = 16;
    if (op.weight_gradient) return {op.k, op.n, stored_rows(op, rows), 1, op.dtype, false, true, false, packed};
    return {rows, op.n, op.k, 1, op.dtype, false, true, false, packed};
}

}  // namespace

GroupedProducts::GroupedProducts(Products& products) : products_(products) {
    cublasHandle_t handle = nullptr;
    check(cublasCreate(&handle));
    handle_.reset(handle);
}

// As in gemm.cpp cuBLAS sees transposes. Forward: C^T[n,r] = W[n,k] A^T[k,r], the weights lying as [n,k]. Weight
// gradient: C^T[n,k] = B^T[n,r] A[r,k].
GroupedProducts::Planned GroupedProducts::shape(const GroupedGemm& op) {
    Planned plan;
    const int n = small(op.n), k = small(op.k);
    for (const long all : op.rows) {
        if (all == 0) continue;
        const int rows = small(all);
        plan.first_operation.push_back(op.weight_gradient ? CUBLAS_OP_N : CUBLAS_OP_T);
        plan.second_operation.push_back(op.weight_gradient ? CUBLAS_OP_T : CUBLAS_OP_N);
        plan.m.push_back(n);
        plan.n.push_back(op.weight_gradient ? k : rows);
        plan.k.push_back(op.weight_gradient ? rows : k);
        plan.first_lead.push_back(op.weight_gradient ? n : k);
        plan.second_lead.push_back(k);
        plan.c_lead.push_back(n);
        plan.sizes.push_back(1);
        plan.alpha.push_back(1);
        plan.beta.push_back(0);
    }
    return plan;
}

CudaBlock GroupedProducts::place(const GroupedGemm& op, const char* a, const char* b, char* c, cudaStream_t stream) {
    const auto size = static_cast<long>(size_of(element_of(op.dtype)));
    std::vector<const char*> first, second, results;
    for (const long rows : op.rows) {
        if (rows == 0) continue;
        first.push_back(b);
        second.push_back(a);
        results.push_back(c);
        a += rows * op.k * size;
        b += (op.weight_gradient ? rows : op.k) * op.n * size;
        c += (op.weight_gradient ? op.k : rows) * op.n * size;
    }
    std::vector<const char*> all = first;
    all.insert(all.end(), second.begin(), second.end());
    all.insert(all.end(), results.begin(), results.end());
    CudaBlock block(all.size() * sizeof(char*));
    if (all.empty()) return block;
    check(cudaMemcpyAsync(block.data(), all.data(), block.size(), cudaMemcpyHostToDevice, stream));
    check(cudaStreamSynchronize(stream));
    return block;
}

void GroupedProducts::prepare(const GroupedGemm& op, CudaMemory& memory, Bytes cache, cudaStream_t stream) {
    if (plans_.contains(&op)) return;
    const bool each = op.dtype == Dtype::fp8;
    Planned plan = each ? Planned{} : shape(op);
    for (const long rows : op.rows)
        if (each && rows > 0) products_.prepare(product_of_group(op, rows));
    const Need need = need_of(op, 0, 1);
    constexpr double most = 8;
    const double bytes = std::max(1.0, need.input() + need.output());
    const auto places = static_cast<int>(std::clamp(std::ceil(1.5 * cache.si() / bytes), 1.0, most));
    for (int i = 0; i < places; ++i) {
        const CudaOperands at = memory.take(need);
        if (each)
            plan.operands.push_back({at.in[0], at.in[1], at.out[0]});
        else
            plan.places.push_back(place(op, at.in[0], at.in[1], at.out[0], stream));
    }
    plans_.emplace(&op, std::move(plan));
}

void GroupedProducts::run(const GroupedGemm& op, void* workspace, cudaStream_t stream) {
    Planned& plan = plans_.at(&op);
    if (op.dtype == Dtype::fp8)
        run_each(op, plan.operands[plan.next], workspace, stream);
    else
        launch(op, plan, plan.places[plan.next], workspace, stream);
    plan.next = (plan.next + 1) % std::max(plan.places.size(), plan.operands.size());
}

void GroupedProducts::run_on(const GroupedGemm& op, const void* a, const void* b, void* c, void* workspace,
                             cudaStream_t stream) {
    const Operands at{static_cast<const char*>(a), static_cast<const char*>(b), static_cast<char*>(c)};
    CudaBlock pointers;
    if (op.dtype == Dtype::fp8) {
        run_each(op, at, workspace, stream);
    } else {
        pointers = place(op, at.a, at.b, at.c, stream);
        launch(op, shape(op), pointers, workspace, stream);
    }
    check(cudaStreamSynchronize(stream));
}

void GroupedProducts::run_each(const GroupedGemm& op, Operands at, void* workspace, cudaStream_t stream) {
    const auto area = [](long x, long y) { return static_cast<std::size_t>(x) * static_cast<std::size_t>(y); };
    const std::size_t result = size_of(result_of(op.dtype));
    for (const long rows : op.rows) {
        if (rows == 0) continue;
        products_.run(product_of_group(op, rows), at.a, at.b, at.c, workspace, stream);
        const long stored = stored_rows(op, rows);
        at.a += area(stored, op.k);
        at.b += op.weight_gradient ? area(stored, op.n) : area(op.k, op.n);
        at.c += (op.weight_gradient ? area(op.k, op.n) : area(rows, op.n)) * result;
    }
}

void GroupedProducts::launch(const GroupedGemm& op, const Planned& plan, const CudaBlock& place, void* workspace,
                             cudaStream_t stream) {
    if (plan.m.empty()) return;
    check(cublasSetStream(handle_.get(), stream));  // takes the workspace away, so that comes second
    check(cublasSetWorkspace(handle_.get(), workspace, workspace_bytes));
    const auto groups = plan.m.size();
    const std::size_t at_once = op.kernels > 0 ? 1 : groups;  // a kernel for each, or one over all
    auto* pointers = reinterpret_cast<void**>(place.data());
    const cudaDataType_t type = grouped_type(op.dtype);
    for (std::size_t g = 0; g < groups; g += at_once)
        check(cublasGemmGroupedBatchedEx(
            handle_.get(), &plan.first_operation[g], &plan.second_operation[g], &plan.m[g], &plan.n[g], &plan.k[g],
            &plan.alpha[g], pointers + g, type, &plan.first_lead[g], pointers + groups + g, type, &plan.second_lead[g],
            &plan.beta[g], pointers + 2 * groups + g, type, &plan.c_lead[g], static_cast<int>(at_once), &plan.sizes[g],
            op.dtype == Dtype::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F));
}

}  // namespace stepcast
