// Matrix products by cuBLASLt and cuBLAS: the algorithm of each shape is the library's first
// heuristic answer, asked once.
#pragma once

#include <map>
#include <vector>

#include "exec/cuda/cuda_memory.h"
#include "model/graph/op.h"

namespace stepcast {

// `batch` times C[m,n] = A[m,k] B[k,n], row-major and packed, batches one after another.
// `a_transposed`: A lies as [k,m]; `b_transposed`: B lies as [n,k], as frameworks keep weights.
// `accumulate`: C is fp32 and added to.
struct Product {
    long m = 0, n = 0, k = 0, batch = 1;
    Dtype dtype = Dtype::fp32;
    bool a_transposed = false, b_transposed = false, accumulate = false;
    unsigned int aligned = alignment;  // bytes that divide every operand's address
    friend auto operator<=>(const Product&, const Product&) = default;
};
// As a training step does it: a forward product with the weights as [n,k], an accumulating one as a
// weight gradient, both operands with the summed dimension outside.
Product product_of(const Gemm& op);
Product product_of(const FusedGemm& op);  // of all its rows

cudaDataType_t data_type(Element element);  // as cuBLAS names it

// All on the GPU that was current when it was made. A product's workspace must not be in use by
// another stream.
class Products {
public:
    Products();

    // Throws ConfigError when the library has no kernel for it on this GPU.
    void prepare(const Product& product);
    void run(const Product& product, const void* a, const void* b, void* c, void* workspace,
             cudaStream_t stream);
    // Every algorithm that the heuristic offers, for comparison with the first.
    std::vector<cublasLtMatmulAlgo_t> algorithms(const Product& product, int most);
    void run_with(const cublasLtMatmulAlgo_t& algorithm, const Product& product, const void* a,
                  const void* b, void* c, void* workspace, cudaStream_t stream);

private:
    struct Planned {
        Owned<cublasLtMatmulDesc_t> description;
        Owned<cublasLtMatrixLayout_t> a, b, c;  // as cuBLAS sees them: column-major, our B first
        cublasLtMatmulAlgo_t algorithm{};
    };
    static Owned<cublasLtMatrixLayout_t> layout(cudaDataType_t type, long rows, long columns,
                                                long batch);
    Planned& planned(const Product& product);
    std::vector<cublasLtMatmulHeuristicResult_t> ask(const Planned& plan, unsigned int aligned,
                                                     int most);

    Owned<cublasLtHandle_t> handle_;
    std::map<Product, Planned> plans_;
};

// Attention through memory: batched products and a softmax, operation by operation, as an eager
// framework runs it and as sim/costs/op_costs.cpp prices it: two products and four passes over the
// scores forward, four and five backward.
void prepare_attention(Products& products, const Attention& op);
// Every sequence and head has Q[seq_q,head_dim], K[seq_k,head_dim], V[seq_k,value_dim] and
// O[seq_q,value_dim], packed, in score_element(dtype). In: Q, K, V; out: the softmax over batch *
// heads * seq_q * seq_k scores, and O. Backward, in: Q, K, V, the softmax that the forward left and
// the gradient of O; out: room for scores, and the gradients of Q, K and V.
void attend(Products& products, const Attention& op, const CudaOperands& at, void* workspace,
            cudaStream_t stream);

// The grouped GEMMs of a graph: one call of cuBLAS over all groups, or a product of cuBLASLt for
// each group, whichever is faster when both are timed; always a product for each group where the
// graph says so (op.kernels) and in fp8, for which cuBLAS has no grouped call. The operands lie at
// a few fixed places that are taken in turn, because the grouped call reads the addresses from GPU
// memory. In fp8 the operands of a weight gradient lie with the rows inside, padded
// (stored_rows()).
class GroupedProducts {
public:
    explicit GroupedProducts(Products& products);

    // Places the operands of `op` in `memory`, so often that a place is cold when its turn comes:
    // row blocks, weights and results packed one after another.
    void prepare(const GroupedGemm& op, CudaMemory& memory, Bytes cache, cudaStream_t stream);
    void run(const GroupedGemm& op, void* workspace, cudaStream_t stream);

private:
    struct Planned {
        std::vector<int> rows, n, k, ones;  // of each group that has rows
        std::vector<float> alpha, beta;
        std::vector<cublasOperation_t> plain, transposed;
        std::vector<CudaOperands> places;
        // of each place: to B, A and C of every group; for the call over all groups
        std::vector<CudaBlock> pointers;
        std::size_t next = 0;
        bool each = false;  // a product for each group
    };
    bool each_is_faster(const GroupedGemm& op, Planned& plan, cudaStream_t stream);
    void run_together(const GroupedGemm& op, Planned& plan, std::size_t place, void* workspace,
                      cudaStream_t stream);
    void run_each(const GroupedGemm& op, const CudaOperands& place, void* workspace,
                  cudaStream_t stream);

    Products& products_;
    Owned<cublasHandle_t> handle_;
    std::map<const GroupedGemm*, Planned> plans_;
};

}  // namespace stepcast
