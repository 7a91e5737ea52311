// The products of experts on a GPU, by the fastest of several ways, which is timed once for each
// shape.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "exec/cuda/check.h"
#include "exec/cuda/gemm.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

int small(long value) {
    if (value > std::numeric_limits<int>::max())
        throw ConfigError(
            fmt::format("execute: a grouped GEMM with a dimension of {}, cuBLAS takes at most {}",
                        value, std::numeric_limits<int>::max()));
    return as_int(value);
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

// Calls `use(rows, a, b, c)` for each group that has rows, with where its operands begin.
template <typename Use>
void over_groups(const GroupedGemm& op, const CudaOperands& place, Use use) {
    const auto area = [](long x, long y) { return as_index(x) * as_index(y); };
    const std::size_t operand = size_of(element_of(op.dtype)),
                      result = size_of(result_of(op.dtype));
    const char *a = place.in[0], *b = place.in[1];
    char* c = place.out[0];
    for (const long rows : op.rows) {
        if (rows == 0) continue;
        use(rows, a, b, c);
        const long stored = stored_rows(op, rows);
        a += area(stored, op.k) * operand;
        b += (op.weight_gradient ? area(stored, op.n) : area(op.k, op.n)) * operand;
        c += (op.weight_gradient ? area(op.k, op.n) : area(rows, op.n)) * result;
    }
}

// Where the operands of each group with rows begin: all of B, then of A, then of C.
CudaBlock pointers_of(const GroupedGemm& op, const CudaOperands& place, cudaStream_t stream) {
    std::vector<const char*> first, second, results;
    over_groups(op, place, [&](long, const char* a, const char* b, const char* c) {
        first.push_back(b);
        second.push_back(a);
        results.push_back(c);
    });
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
    if (op.kernels == 0 && op.dtype != Dtype::fp8) plan.ways.push_back(Way::together);
    plan.ways.push_back(Way::each);
    for (const long rows : op.rows) {
        if (rows == 0) continue;
        ++plan.groups;
        products_.prepare(product_of_group(op, rows));
        if (plan.ways.front() == Way::together) plan.rows.push_back(small(rows));
    }
    if (op.kernels == 0 && plan.groups > 1) plan.ways.push_back(Way::spread);
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
        if (plan.ways.front() == Way::together)
            plan.pointers.push_back(pointers_of(op, plan.places.back(), stream));
    }
    if (plan.ways.back() == Way::spread && sides_.empty()) make_sides();
    const auto equal =
        std::ranges::find_if(plans_, [&](const auto& known) { return *known.first == op; });
    plan.way = equal != plans_.end() ? equal->second.way : fastest(op, plan, stream);
    plans_.emplace(&op, std::move(plan));
}

void GroupedProducts::make_sides() {
    constexpr int streams = 4;  // with the lane's own
    check(cudaEventCreateWithFlags(Out(begun_), cudaEventDisableTiming));
    for (int i = 1; i < streams; ++i) {
        Side side{{}, {}, CudaBlock(workspace_bytes)};
        check(cudaStreamCreateWithFlags(Out(side.stream), cudaStreamNonBlocking));
        check(cudaEventCreateWithFlags(Out(side.done), cudaEventDisableTiming));
        sides_.push_back(std::move(side));
    }
}

// On an H200, cuBLAS's one call over all groups reached a third of the peak, a product for each
// group the rate of its shape once it had some hundred rows
// (calibrate/measurements/h200/grouped.csv).
GroupedProducts::Way GroupedProducts::fastest(const GroupedGemm& op, Planned& plan,
                                              cudaStream_t stream) {
    if (plan.groups == 0 || plan.ways.size() == 1) return plan.ways.front();
    const CudaBlock workspace(workspace_bytes);
    std::vector<Seconds> times;
    for (const Way way : plan.ways)
        times.push_back(time_of(
            [&] {
                run_by(way, op, plan, {0, workspace.data(), stream});
            },
            stream));
    return plan.ways[as_index(std::ranges::min_element(times) - times.begin())];
}

void GroupedProducts::choose(const GroupedGemm& op, Way way) {
    Planned& plan = plans_.at(&op);
    if (contains(plan.ways, way)) plan.way = way;
}

std::string GroupedProducts::ran(const GroupedGemm& op) const {
    const Planned& plan = plans_.at(&op);
    const std::string chosen =
        plan.ways.size() > 1 ? fmt::format(", the fastest of {} ways", plan.ways.size()) : "";
    switch (plan.way) {
        case Way::together: return "cuBLAS, one call over all groups" + chosen;
        case Way::each: return "cuBLASLt, a product for each group" + chosen;
        case Way::spread:
            return fmt::format("cuBLASLt, a product for each group on {} streams{}",
                               sides_.size() + 1, chosen);
    }
    throw std::logic_error("GroupedProducts: unknown way");
}

void GroupedProducts::run(const GroupedGemm& op, void* workspace, cudaStream_t stream) {
    Planned& plan = plans_.at(&op);
    const std::size_t place = plan.next;
    plan.next = (plan.next + 1) % plan.places.size();
    if (plan.groups > 0) run_by(plan.way, op, plan, {place, workspace, stream});
}

void GroupedProducts::run_by(Way way, const GroupedGemm& op, Planned& plan, const GroupedRun& run) {
    const auto& [place, workspace, stream] = run;
    switch (way) {
        case Way::together: return run_together(op, plan, place, workspace, stream);
        case Way::each: return run_each(op, plan.places[place], workspace, stream);
        case Way::spread: return run_spread(op, plan.places[place], workspace, stream);
    }
}

// As in gemm.cpp cuBLAS sees transposes. Forward: C^T[n,r] = W[n,k] A^T[k,r], the weights lying as
// [n,k]. Weight gradient: C^T[n,k] = B^T[n,r] A[r,k].
void GroupedProducts::run_together(const GroupedGemm& op, Planned& plan, std::size_t place,
                                   void* workspace, cudaStream_t stream) {
    const auto groups = as_int(plan.rows.size());
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
    over_groups(op, place, [&](long rows, const char* a, const char* b, char* c) {
        products_.run(product_of_group(op, rows), {a, b, c, workspace}, stream);
    });
}

// The lane's stream takes its part of the groups too, and ends when all have ended.
void GroupedProducts::run_spread(const GroupedGemm& op, const CudaOperands& place, void* workspace,
                                 cudaStream_t stream) {
    check(cudaEventRecord(begun_.get(), stream));
    for (const Side& side : sides_) check(cudaStreamWaitEvent(side.stream.get(), begun_.get(), 0));
    std::size_t next = 0;
    over_groups(op, place, [&](long rows, const char* a, const char* b, char* c) {
        const std::size_t turn = next++ % (sides_.size() + 1);
        const bool own = turn == sides_.size();
        products_.run(product_of_group(op, rows),
                      {a, b, c, own ? workspace : sides_[turn].workspace.data()},
                      own ? stream : sides_[turn].stream.get());
    });
    for (const Side& side : sides_) {
        check(cudaEventRecord(side.done.get(), side.stream.get()));
        check(cudaStreamWaitEvent(stream, side.done.get(), 0));
    }
}

}  // namespace stepcast
