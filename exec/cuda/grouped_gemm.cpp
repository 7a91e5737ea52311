#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "exec/cuda/check.h"
#include "exec/cuda/gemm.h"
#include "model/base/errors.h"

namespace stepcast {

namespace {

int small(long value) {
    if (value > std::numeric_limits<int>::max())
        throw ConfigError(
            fmt::format("execute: a grouped GEMM with a dimension of {}, cuBLAS takes at most {}",
                        value, std::numeric_limits<int>::max()));
    return static_cast<int>(value);
}

// One group. A group begins where the one before ends, so its addresses are multiples of sixteen
// bytes or of an element alone. fp8 kernels take the summed dimension inside only (stored_rows()).
Product product_of_group(const GroupedGemm& op, long rows) {
    const auto element = static_cast<long>(size_of(element_of(op.dtype)));
    const bool in_sixteens = op.k * element % 16 == 0 && op.n * element % 16 == 0;
    const auto packed = static_cast<unsigned int>(in_sixteens ? 16 : element);
    const bool narrow = op.dtype == Dtype::fp8;
    if (op.weight_gradient)
        return {op.k, op.n, stored_rows(op, rows), 1, op.dtype, !narrow, narrow, false, packed};
    return {rows, op.n, op.k, 1, op.dtype, false, true, false, packed};
}

Seconds time_of(const std::function<void()>& run, cudaStream_t stream) {
    constexpr int repetitions = 3;
    Owned<cudaEvent_t> begin, end;
    check(cudaEventCreate(Out(begin)));
    check(cudaEventCreate(Out(end)));
    run();
    check(cudaEventRecord(begin.get(), stream));
    for (int i = 0; i < repetitions; ++i) run();
    check(cudaEventRecord(end.get(), stream));
    check(cudaEventSynchronize(end.get()));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    return Seconds(1e-3 * static_cast<double>(milliseconds));
}

// Where the operands of each group with rows begin: all of B, then of A, then of C.
CudaBlock pointers_of(const GroupedGemm& op, const CudaOperands& place, cudaStream_t stream) {
    const auto size = static_cast<long>(size_of(element_of(op.dtype)));
    const char *a = place.in[0], *b = place.in[1], *c = place.out[0];
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
    first.insert(first.end(), second.begin(), second.end());
    first.insert(first.end(), results.begin(), results.end());
    CudaBlock block(first.size() * sizeof(char*));
    if (first.empty()) return block;
    check(
        cudaMemcpyAsync(block.data(), first.data(), block.size(), cudaMemcpyHostToDevice, stream));
    check(cudaStreamSynchronize(stream));
    return block;
}

}  // namespace

GroupedProducts::GroupedProducts(Products& products) : products_(products) {
    check(cublasCreate(Out(handle_)));
}

void GroupedProducts::prepare(const GroupedGemm& op, CudaMemory& memory, Bytes cache,
                              cudaStream_t stream) {
    if (plans_.contains(&op)) return;
    Planned plan;
    plan.each = op.kernels > 0 || op.dtype == Dtype::fp8;
    for (const long rows : op.rows) {
        if (rows == 0) continue;
        products_.prepare(product_of_group(op, rows));
        if (!plan.each) plan.rows.push_back(small(rows));
    }
    const std::size_t groups = plan.rows.size();
    if (groups > 0) {
        plan.n.assign(groups, small(op.n));
        plan.k.assign(groups, small(op.k));
    }
    plan.ones.assign(groups, 1);
    plan.alpha.assign(groups, 1);
    plan.beta.assign(groups, 0);
    plan.plain.assign(groups, CUBLAS_OP_N);
    plan.transposed.assign(groups, CUBLAS_OP_T);
    const Need need = need_of(op, 0, 1);
    constexpr double most = 8;
    const double bytes = std::max(1.0, need.bytes.input() + need.bytes.output());
    const auto places =
        static_cast<int>(std::clamp(std::ceil(1.5 * cache.si() / bytes), 1.0, most));
    for (int i = 0; i < places; ++i) {
        plan.places.push_back(memory.take(need));
        if (!plan.each) plan.pointers.push_back(pointers_of(op, plan.places.back(), stream));
    }
    Planned& made = plans_.emplace(&op, std::move(plan)).first->second;
    if (!made.each && groups > 0) made.each = each_is_faster(op, made, stream);
}

// cuBLAS's one call over all groups reaches a third of the peak on Hopper, a product for each group
// the rate of its shape once it has some hundred rows.
bool GroupedProducts::each_is_faster(const GroupedGemm& op, Planned& plan, cudaStream_t stream) {
    const CudaBlock workspace(workspace_bytes);
    const CudaOperands& place = plan.places.front();
    const Seconds each = time_of([&] { run_each(op, place, workspace.data(), stream); }, stream);
    return each < time_of([&] { run_together(op, plan, 0, workspace.data(), stream); }, stream);
}

void GroupedProducts::run(const GroupedGemm& op, void* workspace, cudaStream_t stream) {
    Planned& plan = plans_.at(&op);
    const std::size_t place = plan.next;
    plan.next = (plan.next + 1) % plan.places.size();
    if (plan.each) return run_each(op, plan.places[place], workspace, stream);
    if (!plan.rows.empty()) run_together(op, plan, place, workspace, stream);
}

// As in gemm.cpp cuBLAS sees transposes. Forward: C^T[n,r] = W[n,k] A^T[k,r], the weights lying as
// [n,k]. Weight gradient: C^T[n,k] = B^T[n,r] A[r,k].
void GroupedProducts::run_together(const GroupedGemm& op, Planned& plan, std::size_t place,
                                   void* workspace, cudaStream_t stream) {
    const auto groups = static_cast<int>(plan.rows.size());
    // takes the workspace away, so that comes second
    check(cublasSetStream(handle_.get(), stream));
    check(cublasSetWorkspace(handle_.get(), workspace, workspace_bytes));
    auto* pointers = reinterpret_cast<void**>(plan.pointers[place].data());
    const cudaDataType_t type = data_type(element_of(op.dtype));
    const bool gradient = op.weight_gradient;
    const int *rows = plan.rows.data(), *n = plan.n.data(), *k = plan.k.data();
    const cublasOperation_t *plain = plan.plain.data(), *transposed = plan.transposed.data();
    check(cublasGemmGroupedBatchedEx(
        handle_.get(), gradient ? plain : transposed, gradient ? transposed : plain, n,
        gradient ? k : rows, gradient ? rows : k, plan.alpha.data(), pointers, type,
        gradient ? n : k, pointers + groups, type, k, plan.beta.data(), pointers + 2 * groups, type,
        n, groups, plan.ones.data(),
        op.dtype == Dtype::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F));
}

void GroupedProducts::run_each(const GroupedGemm& op, const CudaOperands& place, void* workspace,
                               cudaStream_t stream) {
    const auto area = [](long x, long y) {
        return static_cast<std::size_t>(x) * static_cast<std::size_t>(y);
    };
    const std::size_t operand = size_of(element_of(op.dtype)),
                      result = size_of(result_of(op.dtype));
    const char *a = place.in[0], *b = place.in[1];
    char* c = place.out[0];
    for (const long rows : op.rows) {
        if (rows == 0) continue;
        products_.run(product_of_group(op, rows), a, b, c, workspace, stream);
        const long stored = stored_rows(op, rows);
        a += area(stored, op.k) * operand;
        b += (op.weight_gradient ? area(stored, op.n) : area(op.k, op.n)) * operand;
        c += (op.weight_gradient ? area(op.k, op.n) : area(rows, op.n)) * result;
    }
}

}  // namespace stepcast
