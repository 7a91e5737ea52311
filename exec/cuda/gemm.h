// Matrix products by cuBLASLt and cuBLAS. The algorithm for each shape is the library's first heuristic answer, asked for once.
#pragma once

#include <map>
#include <vector>

#include "exec/cuda/cuda_memory.h"
#include "model/graph/op.h"

namespace stepcast {

// `batch` times C[m,n] = A[m,k] B[k,n], row-major and packed, one batch after another. `a_transposed`: A is stored as [k,m].
// `b_transposed`: B is stored as [n,k], as frameworks keep weights. `accumulate`: C is fp32 and is added to.
struct Product {
    long m = 0, n = 0, k = 0, batch = 1;
    Dtype dtype = Dtype::fp32;
    bool a_transposed = false, b_transposed = false, accumulate = false;
    unsigned int aligned = alignment;  // bytes that divide every operand's address
    friend auto operator<=>(const Product&, const Product&) = default;
};
// The product as a training step runs it: in the forward the weights are [n,k]; an accumulating product is a weight gradient, whose
// operands both have the summed dimension outside.
Product product_of(const Gemm& op);
Product product_of(const FusedGemm& op);  // of all its rows

// Everything is on the GPU that was current at construction. No other stream may use a product's workspace at the same time.
class Products {
public:
    Products();

    // Throws ConfigError if the library has no kernel for the product on this GPU.
    void prepare(const Product& product);
    void run(const Product& product, const void* a, const void* b, void* c, void* workspace, cudaStream_t stream);
    // All algorithms that the heuristic offers, to compare them with the first.
    std::vector<cublasLtMatmulAlgo_t> algorithms(const Product& product, int most);
    void run_with(const cublasLtMatmulAlgo_t& algorithm, const Product& product, const void* a, const void* b, void* c,
                  void* workspace, cudaStream_t stream);

private:
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

// Attention through memory: batched products and a softmax, one operation after another, as an eager framework runs it and as
// sim/costs/op_costs.cpp prices it: two products and four passes over the scores forward, four and five backward.
void prepare_attention(Products& products, const Attention& op);
// Every sequence and head has Q[seq_q,head_dim], K[seq_k,head_dim], V[seq_k,value_dim] and O[seq_q,value_dim], packed, in
// score_element(dtype). Forward: in are Q, K, V; out are the softmax over batch * heads * seq_q * seq_k scores, and O. Backward: in are
// Q, K, V, the forward's softmax and the gradient of O; out are room for scores, and the gradients of Q, K and V.
void attend(Products& products, const Attention& op, const CudaOperands& at, void* workspace, cudaStream_t stream);

// The grouped GEMMs of a graph. Their operands take turns at a few fixed places, because the library reads the addresses from GPU memory.
// The library has none in fp8, which runs as one product after another, one for each group. There the operands of a weight gradient have
// the rows inside, padded (stored_rows()).
class GroupedProducts {
public:
    explicit GroupedProducts(Products& products);

    // Places the operands of `op` in `memory`, packed, and at so many places that each is cold when its turn comes.
    void prepare(const GroupedGemm& op, CudaMemory& memory, Bytes cache, cudaStream_t stream);
    void run(const GroupedGemm& op, void* workspace, cudaStream_t stream);

private:
    struct Planned {
        std::vector<int> rows, n, k, ones;  // of each group that has rows
        std::vector<float> alpha, beta;
        std::vector<cublasOperation_t> plain, transposed;
        std::vector<CudaOperands> places;
        std::vector<CudaBlock> pointers;  // for each place, pointers to B, A and C of every group; none in fp8
        std::size_t next = 0;
    };
    void run_each(const GroupedGemm& op, const CudaOperands& place, void* workspace, cudaStream_t stream);

    Products& products_;
    Owned<cublasHandle_t> handle_;
    std::map<const GroupedGemm*, Planned> plans_;
};

}  // namespace stepcast
