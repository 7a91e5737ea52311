#include "exec/cuda/gemm.h"

#include <fmt/format.h>

#include "exec/cuda/check.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"

namespace stepcast {

cudaDataType_t data_type(Element element) {
    switch (element) {
        case Element::fp32: return CUDA_R_32F;
        case Element::fp16: return CUDA_R_16F;
        case Element::bf16: return CUDA_R_16BF;
        case Element::fp8: return CUDA_R_8F_E4M3;
    }
    throw std::logic_error("data_type: unknown element");
}

namespace {

template <typename Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
    check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value));
}
template <typename Value>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
         const Value& value) {
    check(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value));
}

template <typename Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
}

constexpr float one = 1, zero = 0;

}  // namespace

Product product_of(const Gemm& op) {
    Product product{op.m, op.n, op.k, op.batch, op.dtype, false, true, op.accumulate};
    if (op.accumulate && op.dtype != Dtype::fp8) {  // fp8 kernels need the summed dimension inside
        product.a_transposed = true;
        product.b_transposed = false;
    }
    return product;
}

Product product_of(const FusedGemm& op) {
    return {op.blocks * op.rows_per_block, op.n, op.k, 1, op.dtype, false, true};
}

Products::Products() { check(cublasLtCreate(Out(handle_))); }

Owned<cublasLtMatrixLayout_t> Products::layout(cudaDataType_t type, long rows, long columns,
                                               long batch) {
    Owned<cublasLtMatrixLayout_t> made;
    check(cublasLtMatrixLayoutCreate(Out(made), type, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), rows));
    if (batch > 1) {
        set(made.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
        set(made.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
            static_cast<std::int64_t>(rows) * columns);
    }
    return made;
}

// A row-major matrix is the column-major matrix of its transpose, so cuBLAS computes C^T[n,m] = B^T
// A^T. Its first operand is our B (n x k in column-major if B is stored as [k,n]; k x n, to be
// transposed, if stored as [n,k]). Its second operand is our A.
Products::Planned& Products::planned(const Product& p) {
    if (const auto found = plans_.find(p); found != plans_.end()) return found->second;
    Planned plan;
    const cublasComputeType_t compute =
        p.dtype == Dtype::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(Out(plan.description), compute, CUDA_R_32F));
    set(plan.description.get(), CUBLASLT_MATMUL_DESC_TRANSA,
        p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan.description.get(), CUBLASLT_MATMUL_DESC_TRANSB,
        p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    const cudaDataType_t type = data_type(element_of(p.dtype));
    plan.a = p.b_transposed ? layout(type, p.k, p.n, p.batch) : layout(type, p.n, p.k, p.batch);
    plan.b = p.a_transposed ? layout(type, p.m, p.k, p.batch) : layout(type, p.k, p.m, p.batch);
    plan.c = layout(p.accumulate ? CUDA_R_32F : data_type(result_of(p.dtype)), p.n, p.m, p.batch);
    const std::vector<cublasLtMatmulHeuristicResult_t> answers = ask(plan, p.aligned, 1);
    if (answers.empty())
        throw ConfigError(fmt::format(
            "execute: cuBLASLt has no kernel on this GPU for a {} product {} x {} x {}, batch "
            "{}{}; choose another "
            "dtype{}",
            to_string(p.dtype), p.m, p.n, p.k, p.batch, p.accumulate ? ", added to fp32" : "",
            p.dtype == Dtype::fp8 ? " or dimensions that 16 divides" : ""));
    plan.algorithm = answers.front().algo;
    return plans_.emplace(p, std::move(plan)).first->second;
}

std::vector<cublasLtMatmulHeuristicResult_t> Products::ask(const Planned& plan,
                                                           unsigned int aligned, int most) {
    Owned<cublasLtMatmulPreference_t> made;
    check(cublasLtMatmulPreferenceCreate(Out(made)));
    set(made.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        set(made.get(), operand, aligned);
    std::vector<cublasLtMatmulHeuristicResult_t> answers(as_index(most));
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_.get(), plan.description.get(), plan.a.get(), plan.b.get(), plan.c.get(),
        plan.c.get(), made.get(), most, answers.data(), &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status);
    answers.resize(status == CUBLAS_STATUS_SUCCESS ? as_index(found) : 0);
    std::erase_if(answers,
                  [](const auto& answer) { return answer.state != CUBLAS_STATUS_SUCCESS; });
    return answers;
}

void Products::prepare(const Product& product) { planned(product); }

std::vector<cublasLtMatmulAlgo_t> Products::algorithms(const Product& product, int most) {
    std::vector<cublasLtMatmulAlgo_t> found;
    for (const auto& answer : ask(planned(product), product.aligned, most))
        found.push_back(answer.algo);
    return found;
}

void Products::run_with(const cublasLtMatmulAlgo_t& algorithm, const Product& product,
                        const ProductMemory& at, cudaStream_t stream) {
    const Planned& plan = planned(product);
    check(cublasLtMatmul(handle_.get(), plan.description.get(), &one, at.b, plan.a.get(), at.a,
                         plan.b.get(), product.accumulate ? &one : &zero, at.c, plan.c.get(), at.c,
                         plan.c.get(), &algorithm, at.workspace, workspace_bytes, stream));
}

void Products::run(const Product& product, const ProductMemory& at, cudaStream_t stream) {
    run_with(planned(product).algorithm, product, at, stream);
}

}  // namespace stepcast
