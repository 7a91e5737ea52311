// A stand-in of cuBLASLt: descriptors, two heuristic answers a shape, and products that refuse what
// the library refuses.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "tests/exec/cuda/emulation/machine.h"
#include "tests/exec/cuda/emulation/products.h"

using namespace emulation;

namespace {

struct Description {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    std::int32_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
};
struct Layout {
    cudaDataType_t type;
    std::uint64_t rows, columns;
    std::int64_t lead;
    std::int32_t batch = 1;
    std::int64_t stride = 0;
};
struct Preference {
    std::uint64_t workspace;
    std::uint32_t alignment[4];  // of A, B, C and D
};
// Which problem an algorithm was offered for.
struct Algorithm {
    std::uint64_t magic, problem, workspace, alignment;
};
constexpr std::uint64_t magic = 0x656d756c61746564;

template <typename Into, typename Opaque>
Into& as(Opaque* opaque) {
    static_assert(sizeof(Into) <= sizeof(Opaque));
    return *reinterpret_cast<Into*>(opaque);
}

Matrix matrix_of(const Layout& layout, const void* data, std::int32_t operation, long batch) {
    const auto offset = static_cast<std::size_t>(batch * layout.stride) * size_of(layout.type);
    return {static_cast<const char*>(data) + offset, layout.type, static_cast<long>(layout.rows),
            static_cast<long>(layout.columns),       layout.lead, operation == CUBLAS_OP_T};
}

bool is_valid(const Layout& layout) {
    return size_of(layout.type) > 0 && layout.lead >= static_cast<std::int64_t>(layout.rows) &&
           layout.batch > 0;
}

bool is_aligned(const Layout& layout, std::int64_t bytes) {
    const auto size = static_cast<std::int64_t>(size_of(layout.type));
    return layout.lead * size % bytes == 0 && layout.stride * size % bytes == 0;
}

// Types as the table of cublasLtMatmul() has them; fp8 needs a transposed first and a plain second
// operand, and whole 16 bytes.
bool takes(const Description& d, const Layout& a, const Layout& b, const Layout& c) {
    if (d.scale != CUDA_R_32F || a.type != b.type) return false;
    const bool tf32 = d.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (!tf32 && d.compute != CUBLAS_COMPUTE_32F) return false;
    if (a.type == CUDA_R_32F) return c.type == CUDA_R_32F;
    if (tf32) return false;
    if (a.type != CUDA_R_8F_E4M3) return c.type == a.type || c.type == CUDA_R_32F;
    const bool ada = setting("EMULATED_CUDA_CAPABILITY", 90) >= 89;
    return ada && d.a == CUBLAS_OP_T && d.b == CUBLAS_OP_N && c.type != CUDA_R_8F_E4M3 &&
           is_aligned(a, 16) && is_aligned(b, 16) && is_aligned(c, 16) && a.rows % 16 == 0 &&
           c.rows % 16 == 0;
}

cublasStatus_t check_shapes(const Description& d, const Layout& a, const Layout& b, const Layout& c,
                            const Layout& result) {
    for (const Layout* one : {&a, &b, &c, &result})
        if (!is_valid(*one)) return CUBLAS_STATUS_INVALID_VALUE;
    const auto rows = d.a == CUBLAS_OP_T ? a.columns : a.rows,
               inner = d.a == CUBLAS_OP_T ? a.rows : a.columns;
    const auto inner_b = d.b == CUBLAS_OP_T ? b.columns : b.rows,
               columns = d.b == CUBLAS_OP_T ? b.rows : b.columns;
    if (inner != inner_b || c.rows != rows || c.columns != columns)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (std::memcmp(&c, &result, sizeof c) != 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (a.batch != b.batch || a.batch != c.batch) return CUBLAS_STATUS_INVALID_VALUE;
    return takes(d, a, b, c) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

std::uint64_t problem_of(const Description& d, const Layout& a, const Layout& b, const Layout& c) {
    std::uint64_t mixed =
        static_cast<std::uint64_t>(d.compute) * 4 + static_cast<std::uint64_t>(d.a + 2 * d.b);
    for (const Layout* one : {&a, &b, &c})
        for (const std::uint64_t part : {static_cast<std::uint64_t>(one->type), one->rows,
                                         one->columns, static_cast<std::uint64_t>(one->batch)})
            mixed = (mixed ^ part) * 0x9e3779b97f4a7c15ULL;
    return mixed;
}

template <typename Value>
cublasStatus_t store(Value& target, const void* data, std::size_t size) {
    if (size != sizeof target) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&target, data, size);
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    *handle = reinterpret_cast<cublasLtHandle_t>(new int(current_device()));
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete reinterpret_cast<int*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    *made = new cublasLtMatmulDescOpaque_t{};
    as<Description>(*made) = {compute, scale};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
    delete description;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t made,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* data, std::size_t size) {
    auto& description = as<Description>(made);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) return store(description.a, data, size);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) return store(description.b, data, size);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t lead) {
    *made = new cublasLtMatrixLayoutOpaque_t{};
    as<Layout>(*made) = {type, rows, columns, lead};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t made,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* data, std::size_t size) {
    auto& layout = as<Layout>(made);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return store(layout.batch, data, size);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        return store(layout.stride, data, size);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
    *made = new cublasLtMatmulPreferenceOpaque_t{};
    as<Preference>(*made) = {0, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t made,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* data, std::size_t size) {
    auto& preference = as<Preference>(made);
    switch (attribute) {
        case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
            return store(preference.workspace, data, size);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
            return store(preference.alignment[0], data, size);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
            return store(preference.alignment[1], data, size);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
            return store(preference.alignment[2], data, size);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
            return store(preference.alignment[3], data, size);
        default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

// The first answer takes half of the workspace that is allowed, the second none.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t answers[],
                                              int* found) {
    *found = 0;
    if (handle == nullptr || most < 1) return CUBLAS_STATUS_INVALID_VALUE;
    const auto& shape = as<Description>(description);
    const cublasStatus_t status =
        check_shapes(shape, as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const std::uint64_t allowed = as<Preference>(preference).workspace;
    const auto& aligned = as<Preference>(preference).alignment;
    const std::uint64_t alignment = *std::min_element(aligned, aligned + 4);
    for (const std::uint64_t workspace : {allowed / 2, std::uint64_t{0}}) {
        if (*found == most) break;
        cublasLtMatmulHeuristicResult_t& answer = answers[(*found)++];
        answer = {};
        as<Algorithm>(&answer.algo) = {
            magic, problem_of(shape, as<Layout>(a), as<Layout>(b), as<Layout>(c)), workspace,
            *found == 1 ? alignment : std::min<std::uint64_t>(alignment, 16)};
        answer.workspaceSize = workspace;
        answer.state = CUBLAS_STATUS_SUCCESS;
        answer.wavesCount = 1;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* chosen,
                              void* workspace, std::size_t workspace_size, cudaStream_t stream) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    const Description shape = as<Description>(description);
    const Layout first = as<Layout>(a_layout), second = as<Layout>(b_layout),
                 third = as<Layout>(c_layout);
    const cublasStatus_t status = check_shapes(shape, first, second, third, as<Layout>(d_layout));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    // the library would choose; nobody here lets it
    if (chosen == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
    const Algorithm algorithm = as<const Algorithm>(chosen);
    if (algorithm.magic != magic || algorithm.problem != problem_of(shape, first, second, third))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algorithm.workspace > workspace_size || (algorithm.workspace > 0 && workspace == nullptr))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (const void* pointer : {a, b, c, static_cast<const void*>(d)})
        if (reinterpret_cast<std::uintptr_t>(pointer) % algorithm.alignment != 0)
            return CUBLAS_STATUS_NOT_SUPPORTED;
    const int device = *reinterpret_cast<int*>(handle);
    if (device != current_device()) return CUBLAS_STATUS_INVALID_VALUE;
    const float factor = *static_cast<const float*>(alpha),
                added = *static_cast<const float*>(beta);
    const cudaError_t code = enqueue(stream, [=] {
        require_memory(device, workspace, algorithm.workspace, "a product's workspace");
        const Hold hold(workspace, algorithm.workspace);
        if (algorithm.workspace > 0) std::memset(workspace, 0xff, 256);
        for (long batch = 0; batch < first.batch; ++batch) {
            const Matrix left = matrix_of(first, a, shape.a, batch),
                         right = matrix_of(second, b, shape.b, batch);
            const Matrix old = matrix_of(third, c, CUBLAS_OP_N, batch),
                         made = matrix_of(third, d, CUBLAS_OP_N, batch);
            require_memory(device, left.data, left.bytes(), "a product's first operand");
            require_memory(device, right.data, right.bytes(), "a product's second operand");
            require_memory(device, made.data, made.bytes(), "a product's result");
            multiply(factor, left, right, added, old, const_cast<void*>(made.data),
                     shape.compute == CUBLAS_COMPUTE_32F_FAST_TF32);
        }
    });
    return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
