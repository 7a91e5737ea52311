// The buffers of one rank on its GPU, sized before anything runs and taken in rotation, as in
// exec/host_memory.h. Inputs hold random values and are only read, outputs are only written.
// Together they exceed the L2 cache, so that an op finds its operands in memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "exec/cuda/kernels.h"
#include "exec/cuda/owned.h"
#include "exec/footprint.h"
#include "model/base/numbers.h"
#include "model/graph/task_graph.h"

namespace stepcast {

inline constexpr std::size_t element_count = 4;
std::size_t size_of(Element element);
Element element_of(Dtype dtype);     // as stored: tf32 is fp32
Element result_of(Dtype dtype);      // of a product; fp8 gives bf16
Element score_element(Dtype dtype);  // of attention; fp8 runs as bf16

// bytes; cuBLASLt's fastest kernels want it for every buffer
inline constexpr std::size_t alignment = 256;

// Rows of one group as stored in memory: fp8 kernels sum over whole sixteens.
long stored_rows(const GroupedGemm& op, long rows);

// Bytes that participant `index` of `count` reads and writes in a task. `element` is set if the op
// states one.
struct Need {
    std::optional<Element> element;
    Footprint bytes;
    friend bool operator==(const Need&, const Need&) = default;
};
Need need_of(const Op& op, std::size_t index, std::size_t count);

// Bytes of the buffers of one rank. `common` is the element for ops that state none.
struct CudaPlan {
    std::array<std::size_t, element_count> inputs{};
    std::size_t output = 0;
    std::size_t window = 0;      // what fused kernels of one other rank scatter to
    std::size_t scratch = 0;     // LibraryPasses::scratch()
    std::size_t workspaces = 0;  // one cuBLAS workspace for each lane with matrix products
    Element common = Element::fp32;
    friend bool operator==(const CudaPlan&, const CudaPlan&) = default;
};
inline constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // NVIDIA's advice for Hopper

// Throws ConfigError if the buffers of `rank` exceed `available`; `whole` is all memory of its GPU.
CudaPlan plan_cuda_memory(const TaskGraph& graph, int rank, Bytes cache, Bytes available,
                          Bytes whole);

// Device memory of the GPU that was current when it was made.
class CudaBlock {
public:
    CudaBlock() = default;
    explicit CudaBlock(std::size_t bytes);
    [[nodiscard]] char* data() const { return data_.get(); }
    [[nodiscard]] std::size_t size() const { return size_; }

private:
    Owned<char*> data_;
    std::size_t size_ = 0;
};

class CudaRegion {
public:
    CudaRegion() = default;
    explicit CudaRegion(std::size_t bytes) : block_(bytes) {}
    // Places for one op's operands of `bytes` each, one after another: behind those of the last op,
    // or from the start if the end is near.
    void take(std::span<const double> bytes, std::span<char*> places);
    [[nodiscard]] char* data() const { return block_.data(); }
    [[nodiscard]] std::size_t size() const { return block_.size(); }

private:
    CudaBlock block_;
    std::size_t next_ = 0;
};

// The places of an op's operands, in the order of Need.
struct CudaOperands {
    std::array<char*, 6> in{};
    std::array<char*, 4> out{};
};

struct CudaMemory {
    std::array<CudaRegion, element_count> inputs;
    CudaRegion output;
    CudaBlock window, scratch, workspaces, sink;
    Element common = Element::fp32;

    // `ranks` windows, one for each rank that may scatter here.
    CudaMemory(const CudaPlan& plan, int ranks, std::uint64_t seed, cudaStream_t stream);
    [[nodiscard]] CudaRegion& input(Element element) { return inputs[as_index(element)]; }
    CudaOperands take(const Need& need);  // the next op's
};

}  // namespace stepcast
