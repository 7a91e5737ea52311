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

// Where a product's operands, its result and its workspace lie; the workspace must not be in use by
// another stream.
struct ProductMemory {
    const void *a, *b;
    void *c, *workspace;
};

// All on the GPU that was current when it was made.
class Products {
public:
    Products();

    // Throws ConfigError when the library has no kernel for it on this GPU.
    void prepare(const Product& product);
    void run(const Product& product, const ProductMemory& at, cudaStream_t stream);
    // Every algorithm that the heuristic offers, for comparison with the first.
    std::vector<cublasLtMatmulAlgo_t> algorithms(const Product& product, int most);
    void run_with(const cublasLtMatmulAlgo_t& algorithm, const Product& product,
                  const ProductMemory& at, cudaStream_t stream);

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

// The grouped GEMMs of a graph: one call of cuBLAS over all groups, or a product of cuBLASLt for
// each group, one after another or on several streams, whichever is fastest when all are timed,
// once for each shape. Always one after another where the graph says so (op.kernels); in fp8 never
// the one call, which cuBLAS has not. The operands lie at a few fixed places that are taken in
// turn, because the grouped call reads the addresses from GPU memory. In fp8 the operands of a
// weight gradient lie with the rows inside, padded (stored_rows()).
class GroupedProducts {
public:
    explicit GroupedProducts(Products& products);

    // Places the operands of `op` in `memory`, so often that a place is cold when its turn comes:
    // row blocks, weights and results packed one after another.
    void prepare(const GroupedGemm& op, CudaMemory& memory, Bytes cache, cudaStream_t stream);
    void run(const GroupedGemm& op, void* workspace, cudaStream_t stream);
    [[nodiscard]] std::string ran(const GroupedGemm& op) const;  // by which way, in words

    enum class Way : std::uint8_t { together, each, spread };
    // By one way that the op allows, for tests; the others where it does not.
    void choose(const GroupedGemm& op, Way way);

private:
    struct Planned {
        std::vector<int> rows, n, k, ones;  // of each group that has rows
        std::vector<float> alpha, beta;
        std::vector<cublasOperation_t> plain, transposed;
        std::vector<CudaOperands> places;
        // of each place: to B, A and C of every group; for the call over all groups
        std::vector<CudaBlock> pointers;
        std::size_t next = 0;
        std::size_t groups = 0;  // that have rows
        std::vector<Way> ways;   // that the op allows
        Way way = Way::each;     // the fastest of them
    };
    // A stream beside the lane's, with the workspace of its products.
    struct Side {
        Owned<cudaStream_t> stream;
        Owned<cudaEvent_t> done;
        CudaBlock workspace;
    };
    Way fastest(const GroupedGemm& op, Planned& plan, cudaStream_t stream);
    // A place of the plan, and where to run it.
    struct GroupedRun {
        std::size_t place;
        void* workspace;
        cudaStream_t stream;
    };
    void run_by(Way way, const GroupedGemm& op, Planned& plan, const GroupedRun& run);
    void run_together(const GroupedGemm& op, Planned& plan, std::size_t place, void* workspace,
                      cudaStream_t stream);
    void run_each(const GroupedGemm& op, const CudaOperands& place, void* workspace,
                  cudaStream_t stream);
    void run_spread(const GroupedGemm& op, const CudaOperands& place, void* workspace,
                    cudaStream_t stream);
    void make_sides();

    Products& products_;
    std::vector<Side> sides_;
    Owned<cudaEvent_t> begun_;
    Owned<cublasHandle_t> handle_;
    std::map<const GroupedGemm*, Planned> plans_;
};

}  // namespace stepcast
