#include "tests/exec/cuda/gpu_passes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

#include "exec/cuda/check.h"
#include "exec/cuda/library_kernels.h"
#include "exec/cuda/philox.h"
#include "tests/exec/cuda/gpu_values.h"

namespace stepcast {

namespace {

std::size_t index(std::int64_t x) { return static_cast<std::size_t>(x); }
double number(std::int64_t x) { return static_cast<double>(x); }

std::string name_of(Element element) {
    switch (element) {
        case Element::fp32: return "fp32";
        case Element::fp16: return "fp16";
        case Element::bf16: return "bf16";
        case Element::fp8: return "fp8";
    }
    return "?";
}

// Operands are rounded alike; what is left is the rounding of the result (2^-9 of bf16, 2^-12 of
// fp16 at most) and the order of fp32 sums.
double tolerance(Element element) {
    return element == Element::fp32 ? 1e-5 : element == Element::fp16 ? 4e-4 : 3e-3;
}

void near(const CudaBlock& found, Element element, const Doubles& wanted, const std::string& what) {
    const double off = distance(download(found.data(), element, wanted.size()), wanted);
    expect(off < tolerance(element), what + ": off by " + std::to_string(off));
}

CudaBlock room(std::size_t count, Element element) {
    CudaBlock block(std::max<std::size_t>(count, 1) * size_of(element));
    check(cudaMemset(block.data(), 0xee, block.size()));
    return block;
}
float* floats(const CudaBlock& block) { return reinterpret_cast<float*>(block.data()); }

Values values_of(const std::vector<float>& values) {
    return {block_of(values), Doubles(values.begin(), values.end())};
}

// n = (x - mean) s with s = 1 / sqrt(mean of (x - mean)^2 + epsilon); y = n w + b. As ds/dx_i =
// -s^2 n_i / W and dmean/dx_i = 1 / W, dn_j/dx_i = s ((i = j) - 1 / W - n_i n_j / W), and so d_x_i
// = s (g_i - mean of g - n_i mean of g n) with g = d_y w. Without a mean the terms 1 / W fall away.
struct NormReference {
    Doubles y, d_x, d_weight, d_bias;
};
NormReference norm_reference(const NormShape& s, const Doubles& x, const Doubles& weight,
                             const Doubles& bias, const Doubles& d_y) {
    const std::size_t width = index(s.width);
    NormReference all{Doubles(x.size()), Doubles(x.size()), Doubles(width), Doubles(width)};
    for (std::size_t row = 0; row < index(s.rows); ++row) {
        const std::size_t at = row * width;
        double mean = 0, squares = 0, sum = 0, dot = 0;
        for (std::size_t i = 0; i < width && !s.rms; ++i) mean += x[at + i] / s.width;
        for (std::size_t i = 0; i < width; ++i)
            squares += (x[at + i] - mean) * (x[at + i] - mean) / s.width;
        const double scale = 1 / std::sqrt(squares + static_cast<double>(s.epsilon));
        const auto normal = [&](std::size_t i) { return (x[at + i] - mean) * scale; };
        for (std::size_t i = 0; i < width; ++i) {
            all.y[at + i] = normal(i) * weight[i] + (s.rms ? 0 : bias[i]);
            all.d_weight[i] += d_y[at + i] * normal(i);
            all.d_bias[i] += d_y[at + i];
            if (!s.rms) sum += d_y[at + i] * weight[i] / s.width;
            dot += d_y[at + i] * weight[i] * normal(i) / s.width;
        }
        for (std::size_t i = 0; i < width; ++i)
            all.d_x[at + i] = scale * (d_y[at + i] * weight[i] - sum - normal(i) * dot);
    }
    return all;
}

// Rows of a warp, of some and of all of a block, no whole packs, as many rows that blocks take
// several, the widest.
void test_norms() {
    struct Case {
        std::int64_t rows;
        int width;
        Element element;
    };
    const Case cases[] = {
        {5, 64, Element::bf16},    {3, 65, Element::fp32},      {2200, 64, Element::bf16},
        {300, 768, Element::bf16}, {7, 1001, Element::fp16},    {5, 1024, Element::fp32},
        {3, 4096, Element::fp16},  {4, 8192, Element::fp32},    {3, 12289, Element::bf16},
        {2, 16384, Element::bf16}, {1100, 2048, Element::bf16}, {300, 12288, Element::bf16},
    };
    std::uint64_t seed = 200;
    for (const bool rms : {false, true})
        for (const auto& [rows, width, element] : cases) {
            const NormShape shape{element, rows, width, rms, 1e-5f};
            const std::size_t all = index(rows * width), columns = index(width);
            const Values x = random_values(element, all, seed++),
                         weight = random_values(element, columns, seed++),
                         bias = random_values(element, columns, seed++),
                         d_y = random_values(element, all, seed++);
            const CudaBlock y = room(all, element), d_x = room(all, element),
                            d_weight = room(columns, element), d_bias = room(columns, element),
                            means = room(index(rows), Element::fp32),
                            scales = room(index(rows), Element::fp32),
                            partial = room(norm_partials(shape), Element::fp32);
            const NormTensors at{x.block.data(),   weight.block.data(), bias.block.data(),
                                 y.data(),         floats(means),       floats(scales),
                                 d_y.block.data(), d_x.data(),          d_weight.data(),
                                 d_bias.data(),    floats(partial)};
            NormTensors ahead = at;
            if (rms) ahead.bias = nullptr;
            check(norm(shape, ahead, nullptr));
            check(norm_backward(shape, at, nullptr));
            check(cudaDeviceSynchronize());
            const NormReference wanted =
                norm_reference(shape, x.values, weight.values, bias.values, d_y.values);
            const std::string what = (rms ? "RMSNorm " : "LayerNorm ") + std::to_string(rows) +
                                     " x " + std::to_string(width) + " " + name_of(element);
            near(y, element, wanted.y, what);
            near(d_x, element, wanted.d_x, what + " d_x");
            near(d_weight, element, wanted.d_weight, what + " d_weight");
            if (!rms) near(d_bias, element, wanted.d_bias, what + " d_bias");
        }
    expect(norm({Element::bf16, 1, widest_norm + 1, false, 1e-5f}, {}, nullptr) ==
                   cudaErrorInvalidValue &&
               norm_backward({Element::fp8, 1, 64, false, 1e-5f}, {}, nullptr) ==
                   cudaErrorInvalidValue,
           "norms refuse rows that no kernel takes");
}

// silu = x l with l = 1 / (1 + exp(-x)), slope l + x l (1 - l); gelu = x / 2 (1 + t) with t =
// tanh(u), u = sqrt(2 / pi) (x + 0.044715 x^3), slope (1 + t) / 2 + x / 2 (1 - t^2) u'.
std::pair<double, double> activated(ActivationShape::Function function, double x) {
    if (function == ActivationShape::Function::linear) return {x, 1};
    if (function == ActivationShape::Function::silu) {
        const double l = 1 / (1 + std::exp(-x));
        return {x * l, l + x * l * (1 - l)};
    }
    const double root = std::sqrt(2 / std::acos(-1.0)),
                 t = std::tanh(root * (x + 0.044715 * x * x * x));
    return {x / 2 * (1 + t), (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x)};
}

void test_activation(const ActivationShape& shape, const Values& x, const Values& d_y) {
    const std::size_t all = index(shape.rows * shape.width), width = index(shape.width);
    const CudaBlock y = room(all, shape.element), d_x = room(x.values.size(), shape.element);
    check(activate(shape, x.block.data(), y.data(), nullptr));
    check(activate_backward(shape, x.block.data(), d_y.block.data(), d_x.data(), nullptr));
    check(cudaDeviceSynchronize());
    Doubles wanted(all), gradients(x.values.size());
    for (std::size_t i = 0; i < all; ++i) {
        const std::size_t gate = shape.gated ? i + i / width * width : i, up = gate + width;
        const auto [value, slope] = activated(shape.function, x.values[gate]);
        wanted[i] = value * (shape.gated ? x.values[up] : 1);
        gradients[gate] = d_y.values[i] * slope * (shape.gated ? x.values[up] : 1);
        if (shape.gated) gradients[up] = d_y.values[i] * value;
    }
    const std::string what =
        std::string(shape.function == ActivationShape::Function::silu   ? "silu"
                    : shape.function == ActivationShape::Function::gelu ? "gelu"
                                                                        : "linear") +
        (shape.gated ? " gated " : " ") + std::to_string(shape.rows) + " x " +
        std::to_string(shape.width) + " " + name_of(shape.element);
    near(y, shape.element, wanted, what);
    near(d_x, shape.element, gradients, what + " backward");
}

void test_activations() {
    std::uint64_t seed = 300;
    for (const auto function : {ActivationShape::Function::silu, ActivationShape::Function::gelu,
                                ActivationShape::Function::linear})
        for (const bool gated : {true, false}) {
            for (const auto& [rows, width, element] : {std::tuple{5, 64, Element::bf16},
                                                       {3, 65, Element::fp16},
                                                       {7, 1001, Element::bf16},
                                                       {3, 4096, Element::fp32}}) {
                const ActivationShape shape{element, rows, width, function, gated};
                const auto all = index(shape.rows * shape.width);
                const Values x = random_values(element, (gated ? 2 : 1) * all, seed++);
                test_activation(shape, x, random_values(element, all, seed++));
            }
            std::vector<float> wide, ones(128, 1);  // from -16 on: both ends of the curves
            for (int i = 0; i < (gated ? 256 : 128); ++i)
                wide.push_back(static_cast<float>(i % 128) / 4 - 16);
            test_activation({Element::fp32, 1, 128, function, gated}, values_of(wide),
                            values_of(ones));
        }
}

// Of position t and pair j the angle is t / 10000^(2 j / width).
void test_rotary() {
    std::uint64_t seed = 400;
    for (const auto& [width, element] : {std::pair{64, Element::bf16},
                                         {6, Element::fp32},
                                         {128, Element::fp16},
                                         {20, Element::bf16}}) {
        const int half = width / 2;
        RotaryShape shape{element, 12, 5, 4, 3, width, false};
        std::vector<float> cosines, sines;
        for (int t = 0; t < 5; ++t)
            for (int j = 0; j < half; ++j) {
                const double angle = t / std::pow(10000.0, 2.0 * j / width);
                cosines.push_back(static_cast<float>(std::cos(angle)));
                sines.push_back(static_cast<float>(std::sin(angle)));
            }
        const CudaBlock cosine = block_of(cosines), sine = block_of(sines);
        const std::size_t all = index(12 * 4 * width);
        const Values x = random_values(element, all, seed++);
        const CudaBlock y = room(all, element), back = room(all, element);
        check(rotary(shape, x.block.data(), floats(cosine), floats(sine), y.data(), nullptr));
        shape.backward = true;
        check(rotary(shape, y.data(), floats(cosine), floats(sine), back.data(), nullptr));
        check(cudaDeviceSynchronize());
        Doubles wanted = x.values;
        for (int head = 0; head < 12 * 4; ++head)
            for (int j = 0; j < half && head % 4 < 3; ++j) {
                const double angle = head / 4 % 5 / std::pow(10000.0, 2.0 * j / width);
                double &a = wanted[index(head * width + j)],
                       &b = wanted[index(head * width + j + half)];
                const double first = a;
                a = first * std::cos(angle) - b * std::sin(angle);
                b = b * std::cos(angle) + first * std::sin(angle);
            }
        const std::string what =
            "rotary, heads of " + std::to_string(width) + " " + name_of(element);
        near(y, element, wanted, what);
        // turned back, after one more rounding
        near(back, element, x.values, what + " and back");
    }
    expect(rotary({Element::bf16, 1, 1, 1, 1, 65, false}, nullptr, nullptr, nullptr, nullptr,
                  nullptr) == cudaErrorInvalidValue,
           "rotary refuses heads of odd width");
}

// The vectors that Random123 1.14 publishes for philox4x32-10 (tests/kat_vectors): all zeros, all
// ones, digits of pi.
void test_philox() {
    const auto is = [](const PhiloxWords& found, std::array<std::uint32_t, 4> wanted) {
        return std::equal(wanted.begin(), wanted.end(), found.words);
    };
    expect(is(philox({{0, 0, 0, 0}}, philox_keys(0)),
              {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}) &&
               is(philox({{~0U, ~0U, ~0U, ~0U}}, philox_keys(~std::uint64_t{0})),
                  {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}) &&
               is(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                         philox_keys(0x299f31d0a4093822)),
                  {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}),
           "Philox gives its published numbers");
}

// Element i is dropped if the i-th 16 bits are below p 65536; kept ones are divided by the share
// that is kept. 0.25 of 1003 elements: 251 +- 14.
void test_dropout() {
    std::uint64_t seed = 500;
    for (const Element element : {Element::fp32, Element::fp16, Element::bf16})
        for (const bool adds : {false, true})
            for (const float p : {0.0f, 0.25f, 1.0f}) {
                const std::size_t count = 1003;
                const DropoutShape shape{element, count, p, 77, 3};
                const Values x = random_values(element, count, seed++),
                             residual = random_values(element, count, seed++);
                const CudaBlock y = room(count, element), mask = room(count, Element::fp8),
                                by_mask = room(count, element), by_numbers = room(count, element);
                auto* const kept = reinterpret_cast<std::uint8_t*>(mask.data());
                check(dropout(
                    shape, {x.block.data(), adds ? residual.block.data() : nullptr, y.data(), kept},
                    nullptr));
                check(dropout_backward(shape, x.block.data(), kept, by_mask.data(), nullptr));
                check(dropout_backward(shape, x.block.data(), nullptr, by_numbers.data(), nullptr));
                check(cudaDeviceSynchronize());
                std::vector<std::uint8_t> found(count);
                check(cudaMemcpy(found.data(), mask.data(), count, cudaMemcpyDeviceToHost));
                Doubles wanted(count), gradients(count);
                int dropped = 0;
                bool right = true;
                for (std::size_t i = 0; i < count; ++i) {
                    const PhiloxWords bits =
                        philox({{static_cast<std::uint32_t>(i / 8), 0, 3, 0}}, philox_keys(77));
                    const std::uint32_t own =
                        bits.words[i % 8 / 2] >> (i % 2 == 0 ? 0 : 16) & 0xffff;
                    const bool keeps = static_cast<float>(own) >= p * 65536;
                    right = right && found[i] == (keeps ? 1 : 0);
                    dropped += !keeps;
                    gradients[i] = keeps ? x.values[i] / (1 - static_cast<double>(p)) : 0;
                    wanted[i] = gradients[i] + (adds ? residual.values[i] : 0);
                }
                const std::string what = "dropout of " + std::to_string(p) + " " +
                                         (adds ? "and a sum " : "") + name_of(element);
                expect(right && (p != 0.25f || std::abs(dropped - 251) < 42), what + ": mask");
                if (adds || p < 1) near(y, element, wanted, what);
                if (p < 1) near(by_mask, element, gradients, what + " backward by its mask");
                expect(download(by_mask.data(), element, count) ==
                           download(by_numbers.data(), element, count),
                       what + ": the numbers alone give the same gradient");
            }
    expect(dropout({Element::bf16, 1, 1.5f, 0, 0}, {}, nullptr) == cudaErrorInvalidValue,
           "dropout refuses what is no probability");
}

// loss = log(sum of exp) - logit of the target, whose gradient is softmax - (column = target).
struct LossReference {
    Doubles losses, log_sums, probabilities, gradients;
};
LossReference loss_reference(const LossShape& s, const Doubles& logits,
                             const std::vector<std::int32_t>& targets) {
    LossReference all;
    for (std::size_t row = 0; row < index(s.rows); ++row) {
        const double* const x = logits.data() + row * index(s.columns);
        const double largest = *std::max_element(x, x + s.columns);
        double sum = 0;
        for (std::size_t j = 0; j < index(s.columns); ++j) sum += std::exp(x[j] - largest);
        const double log_sum = largest + std::log(sum);
        const std::int32_t target = targets[row];
        all.log_sums.push_back(log_sum);
        all.losses.push_back(target < 0 ? 0 : log_sum - x[target]);
        for (std::size_t j = 0; j < index(s.columns); ++j) {
            all.probabilities.push_back(std::exp(x[j] - log_sum));
            const double hot = static_cast<std::int64_t>(j) == target ? 1 : 0;
            all.gradients.push_back(
                target < 0 ? 0 : (all.probabilities.back() - hot) * static_cast<double>(s.scale));
        }
    }
    return all;
}

struct LossResults {
    CudaBlock losses, log_sums, probabilities, gradients;
};
LossResults run_loss(const LossShape& shape, const Values& logits,
                     const std::vector<std::int32_t>& targets, bool in_steps) {
    const std::size_t rows = index(shape.rows), all = logits.values.size();
    LossResults found{room(rows, Element::fp32), room(rows, Element::fp32),
                      room(in_steps ? all : 1, Element::fp32), room(all, shape.element)};
    CudaBlock target(rows * sizeof(std::int32_t));
    check(cudaMemcpy(target.data(), targets.data(), target.size(), cudaMemcpyHostToDevice));
    // In place: the gradient takes the place of a copy of the logits.
    check(cudaMemcpy(found.gradients.data(), logits.block.data(), found.gradients.size(),
                     cudaMemcpyDeviceToDevice));
    const LossTensors at{
        found.gradients.data(),      reinterpret_cast<const std::int32_t*>(target.data()),
        floats(found.losses),        floats(found.log_sums),
        floats(found.probabilities), found.gradients.data()};
    check((in_steps ? cross_entropy_in_steps : cross_entropy)(shape, at, nullptr));
    check(
        (in_steps ? cross_entropy_in_steps_backward : cross_entropy_backward)(shape, at, nullptr));
    check(cudaDeviceSynchronize());
    return found;
}

// Rows that begin at no multiple of sixteen bytes, and fewer columns than a pack has.
void test_losses() {
    std::uint64_t seed = 600;
    for (const bool in_steps : {false, true}) {
        for (const auto& [columns, element] : {std::pair{64, Element::fp32},
                                               {65, Element::bf16},
                                               {1000, Element::fp16},
                                               {3, Element::bf16},
                                               {4099, Element::fp32},
                                               {16384, Element::bf16},
                                               {50257, Element::bf16}}) {
            const LossShape shape{element, 5, columns, 0.25f};
            const Values logits = random_values(element, index(5 * columns), seed++);
            const std::vector<std::int32_t> targets{0, columns - 1, -1, columns / 2, 1};
            const LossResults found = run_loss(shape, logits, targets, in_steps);
            const LossReference wanted = loss_reference(shape, logits.values, targets);
            const std::string what = std::string("cross entropy ") + (in_steps ? "in steps " : "") +
                                     "over " + std::to_string(columns) + " " + name_of(element);
            near(found.losses, Element::fp32, wanted.losses, what);
            near(found.log_sums, Element::fp32, wanted.log_sums, what + ": log sums");
            if (in_steps)
                near(found.probabilities, Element::fp32, wanted.probabilities,
                     what + ": probabilities");
            near(found.gradients, element, wanted.gradients, what + ": gradients");
        }
        // (300, 300 + ln 3): exp would overflow; shares 1/4 and 3/4, a loss of ln(4/3) for the
        // second, of ln 4 for the first; columns two and more hold what has no share.
        std::vector<float> logits(2 * 4096, -INFINITY);
        for (const std::size_t row : {0U, 4096U})
            logits[row] = 300, logits[row + 1] = 300 + std::log(3.0f);
        Values by_hand = values_of(logits);
        const LossResults found = run_loss({Element::fp32, 2, 4096, 1}, by_hand, {1, 0}, in_steps);
        const Doubles losses = download(found.losses.data(), Element::fp32, 2),
                      gradients = download(found.gradients.data(), Element::fp32, 3);
        expect(std::abs(losses[0] - std::log(4.0 / 3)) < 1e-4 &&
                   std::abs(losses[1] - std::log(4.0)) < 1e-4 &&
                   std::abs(gradients[0] - 0.25) < 1e-4 && std::abs(gradients[1] + 0.25) < 1e-4 &&
                   gradients[2] == 0,
               std::string("cross entropy by hand") + (in_steps ? " in steps" : ""));
    }
}

// In double precision what the header says.
struct AdamwState {
    Doubles weights, m, v;
};
void adamw_reference(const AdamwShape& s, AdamwState& at, const Doubles& gradients,
                     std::size_t begin, std::size_t count, double decay) {
    const auto of = [](float x) { return static_cast<double>(x); };
    for (std::size_t i = begin; i < begin + count; ++i) {
        const double g = gradients[i] * of(s.gradient_scale);
        at.m[i] = of(s.beta1) * at.m[i] + (1 - of(s.beta1)) * g;
        at.v[i] = of(s.beta2) * at.v[i] + (1 - of(s.beta2)) * g * g;
        const double m = at.m[i] / (1 - std::pow(of(s.beta1), s.step)),
                     v = at.v[i] / (1 - std::pow(of(s.beta2), s.step));
        at.weights[i] -= of(s.rate) * (m / (std::sqrt(v) + of(s.epsilon)) + decay * at.weights[i]);
    }
}

// One weight 1 with gradient 1/2, first step: m' = 1/2, v' = 1/4, so it loses 0.1 (1 + 0.5). The
// others: three steps in place, as one tensor and as four whose begins are no whole packs; what
// lies between them stays.
void test_adamw() {
    {
        const CudaBlock weights = block_of({1}), m = block_of({0}), v = block_of({0}),
                        gradients = block_of({0.5f}), copies = room(1, Element::bf16);
        AdamwShape shape{Element::fp32, Element::bf16, 1};
        shape.copies = true;
        shape.rate = 0.1f;
        shape.decay = 0.5f;
        check(adamw(shape,
                    {floats(weights), floats(m), floats(v), gradients.data(), floats(weights),
                     floats(m), floats(v), copies.data()},
                    nullptr));
        check(cudaDeviceSynchronize());
        const double found = download(weights.data(), Element::fp32, 1)[0];
        expect(std::abs(found - 0.85) < 1e-6 &&
                   std::abs(download(copies.data(), Element::bf16, 1)[0] - 0.85) < 2e-3,
               "AdamW by hand: " + std::to_string(found));
    }
    std::uint64_t seed = 700;
    const std::vector<AdamwPiece> list{
        {0, 1001, 0.1f}, {1001, 2, 0}, {1010, 65536, 0.2f}, {66550, 3000, 0}};
    for (const Element gradient : {Element::fp32, Element::bf16})
        for (const bool copies : {false, true})
            for (const bool pieces : {false, true}) {
                const std::size_t count = 70001;
                AdamwShape shape{gradient, Element::fp16, count};
                shape.copies = copies;
                shape.gradient_scale = 0.5f;
                const Values start = random_values(Element::fp32, count, seed++);
                std::vector<float> squares;
                for (const double x : start.values) squares.push_back(static_cast<float>(x * x));
                const CudaBlock &weights = start.block, v = block_of(squares),
                                copy = room(count, Element::fp16);
                const Values m = random_values(Element::fp32, count, seed++);
                AdamwState wanted{start.values, m.values, Doubles(squares.begin(), squares.end())};
                CudaBlock parts(list.size() * sizeof(AdamwPiece));
                check(cudaMemcpy(parts.data(), list.data(), parts.size(), cudaMemcpyHostToDevice));
                for (shape.step = 1; shape.step <= 3; ++shape.step) {
                    const Values gradients = random_values(gradient, count, seed++);
                    check(
                        adamw(shape,
                              {floats(weights), floats(m.block), floats(v), gradients.block.data(),
                               floats(weights), floats(m.block), floats(v), copy.data(),
                               pieces ? reinterpret_cast<const AdamwPiece*>(parts.data()) : nullptr,
                               static_cast<std::uint32_t>(list.size())},
                              nullptr));
                    check(cudaDeviceSynchronize());
                    if (!pieces)
                        adamw_reference(shape, wanted, gradients.values, 0, count,
                                        static_cast<double>(shape.decay));
                    for (const AdamwPiece& piece : list)
                        if (pieces)
                            adamw_reference(shape, wanted, gradients.values, piece.begin,
                                            piece.count, static_cast<double>(piece.decay));
                }
                const std::string what = "AdamW, gradients in " + name_of(gradient) +
                                         (pieces ? ", four tensors" : "") +
                                         (copies ? ", with copies" : "");
                near(weights, Element::fp32, wanted.weights, what);
                near(m.block, Element::fp32, wanted.m, what + " m");
                near(v, Element::fp32, wanted.v, what + " v");
                if (copies && !pieces) near(copy, Element::fp16, wanted.weights, what + ": copy");
                const Doubles found = download(weights.data(), Element::fp32, count);
                if (pieces)
                    expect(found[1005] == start.values[1005] && found[70000] == start.values[70000],
                           what + ": what is no tensor's stays");
            }
}

void test_casts() {
    std::uint64_t seed = 800;
    constexpr std::size_t count = 1003;
    for (const auto& [from, to] : {std::pair{Element::fp32, Element::bf16},
                                   {Element::fp32, Element::fp16},
                                   {Element::bf16, Element::fp32},
                                   {Element::fp16, Element::bf16}}) {
        const Values x = random_values(from, count, seed++);
        const CudaBlock y = room(count, to);
        check(cast({from, to, count}, x.block.data(), y.data(), nullptr));
        check(cudaDeviceSynchronize());
        near(y, to, x.values, "cast of " + name_of(from) + " to " + name_of(to));
    }
    expect(
        cast({Element::fp8, Element::bf16, 1}, nullptr, nullptr, nullptr) == cudaErrorInvalidValue,
        "a cast refuses fp8, which has scales");
}

// The nearest of E4M3, the even one of two, at most 448: steps are an eighth of the power of two
// below, at least 2^-9.
double nearest_fp8(float x) {
    const double value = std::abs(static_cast<double>(x));
    const double step = std::ldexp(1.0, std::max(value > 0 ? std::ilogb(value) : -6, -6) - 3);
    return std::copysign(std::min(std::nearbyint(value / step) * step, 448.0),
                         static_cast<double>(x));
}

void test_quantize() {
    std::uint64_t seed = 900;
    using Scaling = QuantizeShape::Scaling;
    const auto rounded = [](const Doubles& x, std::size_t i, float scale) {
        return nearest_fp8(static_cast<float>(x[i]) * scale);
    };
    for (const Element element : {Element::fp32, Element::fp16, Element::bf16})
        for (const float scale : {100.0f, 1000.0f}) {  // 1000: many are beyond 448
            const QuantizeShape shape{element, 17, 59, Scaling::tensor};
            const Values x = random_values(element, 17 * 59, seed++);
            const CudaBlock y = room(17 * 59, Element::fp8), by = block_of({scale}),
                            largest = block_of({0}), held = block_of({3});
            check(
                quantize(shape, {x.block.data(), y.data(), floats(by), floats(largest)}, nullptr));
            check(quantize(shape, {x.block.data(), y.data(), floats(by), floats(held)}, nullptr));
            check(cudaDeviceSynchronize());
            Doubles wanted(x.values.size());
            double most = 0;
            for (std::size_t i = 0; i < wanted.size(); ++i) {
                wanted[i] = rounded(x.values, i, scale);
                most = std::max(most, std::abs(x.values[i]));
            }
            expect(download(y.data(), Element::fp8, wanted.size()) == wanted &&
                       download(largest.data(), Element::fp32, 1)[0] == most &&
                       download(held.data(), Element::fp32, 1)[0] == 3,
                   "fp8 of " + name_of(element) + " by one scale of " + std::to_string(scale));
        }
    // Tiles that are whole, cut on both sides, and rows that are no whole words.
    for (const auto& [rows, columns, element] : {std::tuple{128, 256, Element::bf16},
                                                 {200, 136, Element::fp16},
                                                 {17, 59, Element::bf16},
                                                 {130, 300, Element::fp32},
                                                 {33, 264, Element::fp32}}) {
        QuantizeShape shape{element, rows, columns, Scaling::tensor};
        shape.by_columns = true;
        const std::size_t all = index(shape.rows * shape.columns);
        const Values x = random_values(element, all, seed++);
        const CudaBlock y = room(all, Element::fp8), transposed = room(all, Element::fp8),
                        by = block_of({300}), largest = block_of({0});
        check(quantize(
            shape,
            {x.block.data(), y.data(), floats(by), floats(largest), nullptr, transposed.data()},
            nullptr));
        check(cudaDeviceSynchronize());
        Doubles wanted(all), across(all);
        double most = 0;
        for (std::size_t i = 0; i < all; ++i) {
            wanted[i] = rounded(x.values, i, 300);
            across[i % index(columns) * index(rows) + i / index(columns)] = wanted[i];
            most = std::max(most, std::abs(x.values[i]));
        }
        expect(download(y.data(), Element::fp8, all) == wanted &&
                   download(transposed.data(), Element::fp8, all) == across &&
                   download(largest.data(), Element::fp32, 1)[0] == most,
               "fp8 of " + name_of(element) + " by rows and columns of " + std::to_string(rows) +
                   " x " + std::to_string(columns));
    }
    for (const auto& [columns, element] : {std::pair{128, Element::bf16},
                                           {296, Element::fp16},
                                           {299, Element::bf16},
                                           {64, Element::fp32},
                                           {4096, Element::fp32},
                                           {1000, Element::bf16}}) {
        const QuantizeShape shape{element, 5, columns, Scaling::block};
        const Values x = random_values(element, index(5 * columns), seed++);
        const auto blocks = index(blocks_of_row(shape));
        // the last row is all zeros: their scale is 1
        const std::size_t zeros = index(4 * columns);
        check(cudaMemset(x.block.data() + zeros * size_of(element), 0,
                         index(columns) * size_of(element)));
        const CudaBlock y = room(x.values.size(), Element::fp8),
                        inverse = room(5 * blocks, Element::fp32);
        check(quantize(shape, {x.block.data(), y.data(), nullptr, nullptr, floats(inverse)},
                       nullptr));
        check(cudaDeviceSynchronize());
        Doubles wanted(x.values.size()), scales(5 * blocks);
        for (std::size_t row = 0; row < 5; ++row)
            for (std::size_t block = 0; block < blocks; ++block) {
                const std::size_t begin = row * index(columns) + block * fp8_block,
                                  end = std::min(begin + fp8_block, (row + 1) * index(columns));
                float most = 0;
                for (std::size_t i = begin; i < end && row < 4; ++i)
                    most = std::max(most, static_cast<float>(std::abs(x.values[i])));
                const float scale = most > 0 ? 448 / most : 1;
                scales[row * blocks + block] = static_cast<double>(1 / scale);
                for (std::size_t i = begin; i < end && row < 4; ++i)
                    wanted[i] = rounded(x.values, i, scale);
            }
        expect(download(y.data(), Element::fp8, wanted.size()) == wanted &&
                   download(inverse.data(), Element::fp32, scales.size()) == scales,
               "fp8 of " + name_of(element) + " by blocks of rows of " + std::to_string(columns));
    }
}

// Memory that all kernels of the comparison share, each from its start.
class Arena {
public:
    explicit Arena(std::size_t bytes) : block_(bytes) {
        check(fill_random(block_.data(), Element::bf16, bytes / 2, 1, nullptr));
    }
    void reset() { next_ = 0; }
    template <typename T = void>
    T* take(double bytes) {
        char* const place = block_.data() + next_;
        next_ += (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
        if (next_ > block_.size()) throw std::logic_error("the arena is too small");
        return reinterpret_cast<T*>(place);
    }
    [[nodiscard]] char* data() const { return block_.data(); }
    [[nodiscard]] std::size_t size() const { return block_.size(); }

private:
    CudaBlock block_;
    std::size_t next_ = 0;
};

class CopyComparison {
public:
    CopyComparison(bool times, std::size_t bytes) : arena(bytes), times_(times) {}
    Arena arena;

    void measure(const std::string& name, const Moved& moved,
                 const std::function<cudaError_t()>& run) {
        const auto launch = [&] { check(run()); };
        const double bytes = moved.read + moved.written;
        std::string said = "copy rate: " + name + ": reads " + text(1e-6 * moved.read, "MB") +
                           ", writes " + text(1e-6 * moved.written, "MB");
        ++kernels_;
        if (!times_) {
            launch();
            check(cudaDeviceSynchronize());
            said += ", not timed";
        } else {
            const double share = bytes / time_of_launch(launch) / copy_rate(bytes);
            said += ", " + text(1e-9 * share * copy_rate(bytes), "GB/s") + ", " +
                    text(100 * share, "% of the copy rate");
            slow_ += share < 0.85;
        }
        arena.reset();
        std::printf("      %s\n", said.c_str());
    }
    void conclude() const {
        std::printf("      copy rate: %d kernels, %s\n", kernels_,
                    times_
                        ? (std::to_string(slow_) + " of them below 85 % of the copy rate").c_str()
                        : "not timed");
    }

private:
    static std::string text(double value, const char* unit) {
        char buffer[64];
        std::snprintf(buffer, sizeof buffer, "%.4g %s", value, unit);
        return buffer;
    }
    // Of a copy that reads and writes as many bytes together.
    double copy_rate(double bytes) {
        const auto half = std::min(static_cast<std::size_t>(bytes / 2), arena.size() / 2);
        if (half != half_) {
            half_ = half;
            rate_ = 2 * static_cast<double>(half) / time_of_launch([&] {
                        check(cudaMemcpyAsync(arena.data() + arena.size() / 2, arena.data(), half,
                                              cudaMemcpyDeviceToDevice, nullptr));
                    });
        }
        return rate_;
    }

    bool times_;
    int kernels_ = 0, slow_ = 0;
    std::size_t half_ = 0;
    double rate_ = 0;
};

}  // namespace

void test_library_passes() {
    test_norms();
    test_activations();
    test_rotary();
    test_philox();
    test_dropout();
    test_losses();
    test_adamw();
    test_casts();
    test_quantize();
}

// Shapes of layers that are wide and of such as are narrow; 8192 tokens.
void compare_with_copies(bool times) {
    const std::int64_t tokens = times ? 8192 : 8;
    CopyComparison compared(times, std::size_t{1} << (times ? 32 : 22));
    Arena& arena = compared.arena;
    const auto rows_of = [&](std::int64_t width) {
        return std::to_string(tokens) + " x " + std::to_string(width) + " bf16";
    };
    for (const int width : {1024, 4096, 16384})
        for (const bool rms : {true, false}) {
            const NormShape shape{Element::bf16, tokens, width, rms, 1e-5f};
            const double x = number(tokens * width) * 2, row = number(width) * 2,
                         by_row = number(tokens) * 4;
            const std::string what = (rms ? "RMSNorm " : "LayerNorm ") + rows_of(width);
            const auto tensors = [&] {
                const auto partials = static_cast<double>(norm_partials(shape));
                return NormTensors{arena.take(x),
                                   arena.take(row),
                                   rms ? nullptr : arena.take(row),
                                   arena.take(x),
                                   arena.take<float>(by_row),
                                   arena.take<float>(by_row),
                                   arena.take(x),
                                   arena.take(x),
                                   arena.take(row),
                                   arena.take(row),
                                   arena.take<float>(4 * partials)};
            };
            NormTensors at = tensors();
            compared.measure(what, moved(shape, false), [&] { return norm(shape, at, nullptr); });
            at = tensors();
            compared.measure(what + " backward", moved(shape, true),
                             [&] { return norm_backward(shape, at, nullptr); });
        }
    for (const bool gated : {true, false}) {
        using Function = ActivationShape::Function;
        const ActivationShape shape{Element::bf16, tokens, 14336,
                                    gated ? Function::silu : Function::gelu, gated};
        const double y = number(tokens * 14336) * 2, x = (gated ? 2 : 1) * y;
        const std::string what = (gated ? "gated silu " : "gelu ") + rows_of(14336);
        void *in = arena.take(x), *out = arena.take(y);
        compared.measure(what, moved(shape, false),
                         [&] { return activate(shape, in, out, nullptr); });
        in = arena.take(x), out = arena.take(y);
        void* const d_x = arena.take(x);
        compared.measure(what + " backward", moved(shape, true),
                         [&] { return activate_backward(shape, in, out, d_x, nullptr); });
    }
    for (const bool backward : {false, true}) {
        const RotaryShape shape{Element::bf16, tokens, 4096, 48, 40, 128, backward};
        void *const x = arena.take(moved(shape).read), *const y = arena.take(moved(shape).read);
        auto *const cosines = arena.take<float>(4096 * 64 * 4), *const sines = arena.take<float>(
                                                                    4096 * 64 * 4);
        compared.measure(
            "rotary of 48 heads of 128 bf16" + std::string(backward ? " backward" : ""),
            moved(shape), [&] { return rotary(shape, x, cosines, sines, y, nullptr); });
    }
    const std::size_t count = index(tokens * 16384);
    for (const bool adds : {false, true})
        for (const bool masks : {false, true}) {
            const DropoutShape shape{Element::bf16, count, 0.1f, 1, 2};
            const double x = static_cast<double>(count) * 2;
            const DropoutTensors at{arena.take(x), adds ? arena.take(x) : nullptr, arena.take(x),
                                    masks ? arena.take<std::uint8_t>(x / 2) : nullptr};
            const std::string what =
                std::string("dropout") + (adds ? " and sum" : "") + (masks ? " with a mask" : "");
            compared.measure(what, moved(shape, adds, masks, false),
                             [&] { return dropout(shape, at, nullptr); });
            if (adds) continue;
            void *const d_y = arena.take(x), *const d_x = arena.take(x);
            auto* const mask = masks ? arena.take<std::uint8_t>(x / 2) : nullptr;
            compared.measure(what + " backward", moved(shape, false, masks, true),
                             [&] { return dropout_backward(shape, d_y, mask, d_x, nullptr); });
        }
    for (const auto& [element, columns] :
         {std::pair{Element::fp32, 128256}, {Element::bf16, 128256}, {Element::bf16, 50257}})
        for (const bool in_steps : {false, true}) {
            const LossShape shape{element, tokens / 4, columns, 1};
            const double x = area(shape) * bytes_of(element), by_row = number(shape.rows) * 4;
            const std::string what = std::string("cross entropy ") + (in_steps ? "in steps " : "") +
                                     "over " + std::to_string(columns) + " " + name_of(element);
            const auto moves =
                in_steps ? moved_in_steps : static_cast<Moved (*)(const LossShape&, bool)>(moved);
            for (const bool backward : {false, true}) {
                void* const logits = arena.take(x);
                auto* const targets = arena.take<std::int32_t>(by_row);
                check(cudaMemset(targets, 0, index(shape.rows) * 4));
                const LossTensors at{logits,
                                     targets,
                                     arena.take<float>(by_row),
                                     arena.take<float>(by_row),
                                     in_steps ? arena.take<float>(4 * area(shape)) : nullptr,
                                     logits};
                const auto run =
                    in_steps ? (backward ? cross_entropy_in_steps_backward : cross_entropy_in_steps)
                             : (backward ? cross_entropy_backward : cross_entropy);
                compared.measure(what + (backward ? " backward" : ""), moves(shape, backward),
                                 [&] { return run(shape, at, nullptr); });
            }
        }
    for (const Element gradient : {Element::fp32, Element::bf16})
        for (const bool copies : {true, false}) {
            AdamwShape shape{gradient, Element::bf16, index(tokens * 16384)};
            shape.copies = copies;
            const double n = static_cast<double>(shape.count);
            auto *const weights = arena.take<float>(4 * n), *const m = arena.take<float>(4 * n),
                        *const v = arena.take<float>(4 * n);
            void *const gradients = arena.take(4 * n), *const copy = arena.take(2 * n);
            compared.measure(
                "AdamW, gradients in " + name_of(gradient) +
                    (copies ? ", with copies in bf16" : ""),
                moved(shape), [&] {
                    return adamw(shape, {weights, m, v, gradients, weights, m, v, copy}, nullptr);
                });
        }
    for (const auto& [from, to] :
         {std::pair{Element::fp32, Element::bf16}, {Element::bf16, Element::fp32}}) {
        const CastShape shape{from, to, count};
        void *const x = arena.take(moved(shape).read), *const y = arena.take(moved(shape).written);
        compared.measure("cast of " + name_of(from) + " to " + name_of(to), moved(shape),
                         [&] { return cast(shape, x, y, nullptr); });
    }
    using Scaling = QuantizeShape::Scaling;
    for (const auto& [name, scaling, by_columns] :
         {std::tuple{"fp8 by one scale", Scaling::tensor, false},
          {"fp8 by one scale, by rows and columns", Scaling::tensor, true},
          {"fp8 by blocks of 128", Scaling::block, false}}) {
        const QuantizeShape shape{Element::bf16, tokens, 16384, scaling, by_columns};
        const QuantizeTensors at{arena.take(moved(shape).read),
                                 arena.take(number(tokens * 16384)),
                                 arena.take<float>(4),
                                 arena.take<float>(4),
                                 arena.take<float>(number(tokens) * 128 * 4),
                                 arena.take(number(tokens * 16384))};
        compared.measure(name, moved(shape), [&] { return quantize(shape, at, nullptr); });
    }
    compared.conclude();
}

}  // namespace stepcast
