#include "tests/exec/cuda/gpu_values.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "exec/cuda/check.h"

namespace stepcast {

std::atomic<int> wrong = 0;

namespace {

// Host values as an element type's bytes and back; 16-bit floats through their bits, rounded to
// nearest.
std::uint32_t bits_of(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}
float float_of(std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}
double from_half(std::uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double value =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return (h & 0x8000) != 0 ? -value : value;
}
// E4M3: 1 sign, 4 exponent bits (bias 7), 3 fraction bits.
double from_fp8(std::uint8_t b) {
    const int exponent = b >> 3 & 15, fraction = b & 7;
    const double value =
        exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    return (b & 0x80) != 0 ? -value : value;
}

}  // namespace

void expect(bool right, const std::string& what) {
    std::printf("%s %s\n", right ? "ok   " : "WRONG", what.c_str());
    wrong += !right;
}

Doubles download(const void* data, Element element, std::size_t count) {
    std::vector<std::uint8_t> bytes(count * size_of(element));
    check(cudaMemcpy(bytes.data(), data, bytes.size(), cudaMemcpyDeviceToHost));
    Doubles values(count);
    for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t word = 0;
        std::memcpy(&word, bytes.data() + i * size_of(element), size_of(element));
        switch (element) {
            case Element::fp32: values[i] = static_cast<double>(float_of(word)); break;
            case Element::bf16: values[i] = static_cast<double>(float_of(word << 16)); break;
            case Element::fp16: values[i] = from_half(static_cast<std::uint16_t>(word)); break;
            case Element::fp8: values[i] = from_fp8(static_cast<std::uint8_t>(word)); break;
        }
    }
    return values;
}

Values random_values(Element element, std::size_t count, std::uint64_t seed) {
    Values made{CudaBlock(count * size_of(element)), {}};
    check(fill_random(made.block.data(), element, count, seed, nullptr));
    made.values = download(made.block.data(), element, count);
    return made;
}

double distance(const Doubles& found, const Doubles& expected) {
    double difference = 0, length = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        difference += (found[i] - expected[i]) * (found[i] - expected[i]);
        length += expected[i] * expected[i];
    }
    return std::sqrt(difference / length);
}

CudaBlock block_of(const std::vector<float>& values) {
    CudaBlock block(values.size() * 4);
    check(cudaMemcpy(block.data(), values.data(), block.size(), cudaMemcpyHostToDevice));
    return block;
}

// Something runs before each launch, so that the host has issued it when its turn comes.
double time_of_launch(const std::function<void()>& launch) {
    const CudaBlock before(std::size_t{1} << 28);
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    std::vector<double> times;
    for (int i = 0; i < 18; ++i) {
        check(cudaMemsetAsync(before.data(), i, before.size(), nullptr));
        check(cudaEventRecord(begin));
        launch();
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin, end));
        if (i >= 3) times.push_back(1e-3 * static_cast<double>(milliseconds));
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

}  // namespace stepcast
