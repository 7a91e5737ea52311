// Quantities as literals: 2_us, 16_MiB.
#pragma once

#include "model/base/units.h"

namespace stepcast::literals {

constexpr Seconds operator""_s(long double v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_s(unsigned long long v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_ms(long double v) { return Seconds(static_cast<double>(v) * 1e-3); }
constexpr Seconds operator""_ms(unsigned long long v) {
    return Seconds(static_cast<double>(v) * 1e-3);
}
constexpr Seconds operator""_us(long double v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Seconds operator""_us(unsigned long long v) {
    return Seconds(static_cast<double>(v) * 1e-6);
}
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<double>(v)); }
constexpr Bytes operator""_KiB(unsigned long long v) {
    return Bytes(static_cast<double>(v) * 1024.0);
}
constexpr Bytes operator""_MiB(unsigned long long v) {
    return Bytes(static_cast<double>(v) * 1048576.0);
}
constexpr BytesPerSecond operator""_GBps(long double v) {
    return BytesPerSecond(static_cast<double>(v) * 1e9);
}
constexpr BytesPerSecond operator""_GBps(unsigned long long v) {
    return BytesPerSecond(static_cast<double>(v) * 1e9);
}
constexpr FlopsPerSecond operator""_TFLOPps(long double v) {
    return FlopsPerSecond(static_cast<double>(v) * 1e12);
}
constexpr FlopsPerSecond operator""_TFLOPps(unsigned long long v) {
    return FlopsPerSecond(static_cast<double>(v) * 1e12);
}

}  // namespace stepcast::literals
