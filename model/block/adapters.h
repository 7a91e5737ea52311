// LoRA's matrices beside a frozen linear layer (arXiv 2106.09685): y += (x A) B, with A [in, r] and
// B [r, out]. They are trained although the layer is not. Two ways:
//   at once, as training libraries have them: the products in 16 bit and one sum.
//   composed of PyTorch's operators, as PEFT 0.21 runs them (tuners/lora/layer.py, Linear.forward):
//     adapters are in fp32 (autocast_adapter_dtype), and fp32 products run without tensor cores
//     unless TF32 is allowed. Counted in the kernels of two models on an H100
//     (calibrate/measurements/h100).
//     forward: x is cast, both products, times the scaling, plus the layer's result, cast back
//     backward: the gradient of the result is cast to fp32 and, for the layer, back again; it is
//       scaled; the products; the gradient of x is cast and added to that of the layer
// Under automatic casting x arrives in fp32 and the products are in 16 bit: the same passes with
// the types exchanged.
#pragma once

#include "model/block/composed.h"
#include "model/block/gelu_steps.h"

namespace stepcast {

// Types of the tensors around composed adapters: x and the layer's result, and those of the
// adapters' products.
struct AdapterTypes {
    Dtype outside, inside;
    [[nodiscard]] bool cast() const { return outside != inside; }
};
inline AdapterTypes adapter_types(const Runtime& r, const Linear& l) {
    const Dtype own = between_products(l.dtype),
                wide = size_of(own) < size_of(Dtype::fp32) ? Dtype::fp32 : own;
    return r.autocast ? AdapterTypes{wide, own} : AdapterTypes{own, wide};
}

struct Adapters : ElementPass {
    using PassWriter::backward, PassWriter::forward, ElementPass::backward, ElementPass::forward;
    const Linear& l;
    Adapters(const BlockPass& pass, const Linear& beside) : ElementPass{pass}, l(beside) {}

    void plan() const {
        if (l.adapter_rank == 0) return;
        composes(*this, Composed::adapters) ? composed() : at_once();
    }

private:
    const double input = number(l.tokens * l.in.rank), result = number(l.tokens * l.out.rank);

    void at_once() const {
        const Dtype dtype = between_products(l.dtype);
        const Bytes element = size_of(dtype);
        products(dtype);
        forward("adapter_sum", result, 2.0 * element, element);
        backward("adapter_sum_backward", input, 2.0 * element, element);
    }

    void composed() const {
        const AdapterTypes types = adapter_types(r, l);
        const Bytes outside = size_of(types.outside), inside = size_of(types.inside);
        if (types.cast()) {
            forward("adapter_cast", cast_pass(input, outside, inside));
            backward("adapter_cast_backward", cast_pass(result, outside, inside));
            backward("adapter_cast_backward", cast_pass(result, inside, outside));
        }
        backward("adapter_scale_backward", result, inside, inside);
        products(types.inside);
        forward("adapter_scale", result, inside, inside);
        forward("adapter_sum", result, outside + inside, inside);
        if (types.cast()) {
            forward("adapter_cast", cast_pass(result, inside, outside));
            backward("adapter_cast_backward", cast_pass(input, inside, outside));
        }
        backward("adapter_sum_backward", input, 2.0 * outside, outside);
    }

    static MemoryPass cast_pass(double elements, Bytes from, Bytes to) {
        return from < to ? moved(to_fp32, elements * from)
                         : MemoryPass{elements * from, elements * to};
    }

    // Each weight gradient comes before the input gradient.
    void products(Dtype dtype) const {
        const Linear in{.name = "adapter_in",
                        .tokens = l.tokens,
                        .out = l.adapter_rank,
                        .in = l.in,
                        .dtype = dtype};
        const Linear out{.name = "adapter_out",
                         .tokens = l.tokens,
                         .out = l.out,
                         .in = l.adapter_rank,
                         .dtype = dtype};
        for (const Linear& of : {in, out})
            if (ahead != nullptr) plan_linear(*ahead, of);
        for (const Linear& of : {out, in})
            if (back != nullptr) {
                back->weights.compute(of.name, product_of(of, of.out.rank, of.in.rank, of.tokens));
                plan_input_gradient(back->inputs, of);
            }
    }
};

}  // namespace stepcast
