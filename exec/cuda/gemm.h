// Matrix products by cuBLASLt and cuBLAS: the algorithm of each shape is the library's first heuristic answer, asked
// once.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <map>
#include <memory>
#include <vector>

#include "exec/cuda/cuda_memory.h"
#include "model/graph/op.h"

namespace stepcast {

// `batch` times C[m,n] = A[m,k] B[k,n], row-major and packed, batches one after another. `a_transposed`: A lies as
// [k,m]; `b_transposed`: B lies as [n,k], as frameworks keep weights. `accumulate`: C is fp32 and added to.
struct Product {
    long m = 0, n = 0, k = 0, batch = 1;
    Dtype dtype = Dtype::fp32;
    bool a_transposed = false, b_transposed = false, accumulate = false;
    unsigned int aligned = alignment;  // bytes that divide every operand's address
    friend auto operator<=>(const Product&, const Product&) = default;
};
// As a training step does it: a forward product with the weights as [n,k], an accumulating one as a weight gradient,
// both operands with the summed dimension outside.
Product product_of(const Gemm& op);
Product product_of(const FusedGemm& op);  // of all its rows

// All on the GPU that was current when it was made. A product's workspace must not be in use by another stream.
class Products {
public:
    Products();

    // Throws ConfigError when the library has no kernel for it on this GPU.
    void prepare(const Product& product);
    void run(const Product& product, const void* a, const void* b, void* c, void* workspace, cudaStream_t stream);
    // Every algorithm that the heuristic offers, for comparison with the first.
    std::vector<cublasLtMatmulAlgo_t> algorithms(const Product& product, int most);
    void run_with(const cublasLtMatmulAlgo_t& algorithm, const Product& product, const void* a, const void* b, void* c,
                  void* workspace, cudaStream_t stream);

private:
    struct Close {
        void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
        void operator()(cublasLtMatmulDesc_t description) const { cublasLtMatmulDescDestroy(description); }
        void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
        void operator()(cublasLtMatmulPreference_t preference) const { cublasLtMatmulPreferenceDestroy(preference); }
    };
    template <typename Pointer>
    using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, Close>;
    struct Planned {
        Owned<cublasLtMatmulDesc_t> description;
        Owned<cublasLtMatrixLayout_t> a, b, c;  // as cuBLAS sees them: column-major, our B first
        cublasLtMatmulAlgo_t algorithm{};
    };
    static Owned<cublasLtMatrixLayout_t> layout(cudaDataType_t type, long rows, long columns, long batch);
    Planned& planned(const Product& product);
    std::vector<cublasLtMatmulHeuristicResult_t> ask(const Planned& plan, unsigned int aligned, int most);

    Owned<cublasLtHandle_t> handle_;
    std::map<Product, Planned> plans_;
};

// The grouped GEMMs of a graph. Their operands lie at a few fixed places that are taken in turn, since the library
// reads the addresses from GPU memory. In fp8, which it has not, a product for each group, one after another; there the
// operands of a weight gradient lie with the rows inside, padded (stored_rows()).
class GroupedProducts {
public:
    explicit GroupedProducts(Products& products);

    // Places the operands of `op` in `memory`, so often that a place is cold when its turn comes.
    void prepare(const GroupedGemm& op, CudaMemory& memory, Bytes cache, cudaStream_t stream);
    void run(const GroupedGemm& op, void* workspace, cudaStream_t stream);
    // With operands of the caller: row blocks, weights and results packed one after another. Synchronises.
    void run_on(const GroupedGemm& op, const void* a, const void* b, void* c, void* workspace, cudaStream_t stream);

private:
    struct Close {
        void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
    };
    struct Operands {
        const char *a, *b;
        char* c;
    };
    struct Planned {
        std::vector<cublasOperation_t> first_operation, second_operation;
        std::vector<int> m, n, k, first_lead, second_lead, c_lead, sizes;
        std::vector<float> alpha, beta;
        std::vector<CudaBlock> places;   // each: pointers to B, A and C of every group
        std::vector<Operands> operands;  // fp8: the same on the host
        std::size_t next = 0;
    };
    static Planned shape(const GroupedGemm& op);
    static CudaBlock place(const GroupedGemm& op, const char* a, const char* b, char* c, cudaStream_t stream);
    void launch(const GroupedGemm& op, const Planned& plan, const CudaBlock& place, void* workspace,
                cudaStream_t stream);

    void run_each(const GroupedGemm& op, Operands at, void* workspace, cudaStream_t stream);

    Products& products_;
    std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, Close> handle_;
    std::map<const GroupedGemm*, Planned> plans_;
};

}  // namespace stepcast
