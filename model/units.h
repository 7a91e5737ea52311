// Physical dimensions as types: seconds, bytes, floating-point operations and joules with integer exponents. Values are stored in SI
// base units; only units.cpp converts from and to text.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <type_traits>

namespace stepcast {

// A number with dimension second^S byte^B flop^F joule^J. The quotient of equal dimensions is a plain double.
template <int S, int B, int F, int J = 0>
class Quantity {
public:
    constexpr Quantity() = default;
    constexpr explicit Quantity(double si) : si_(si) {}
    [[nodiscard]] constexpr double si() const { return si_; }

    constexpr Quantity& operator+=(Quantity o) { return *this = *this + o; }
    constexpr Quantity& operator-=(Quantity o) { return *this = *this - o; }
    constexpr Quantity& operator*=(double f) { return *this = *this * f; }
    friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.si_ + b.si_); }
    friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.si_ - b.si_); }
    friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.si_); }
    friend constexpr Quantity operator*(Quantity a, double f) { return Quantity(a.si_ * f); }
    friend constexpr Quantity operator*(double f, Quantity a) { return Quantity(a.si_ * f); }
    friend constexpr Quantity operator/(Quantity a, double f) { return Quantity(a.si_ / f); }
    friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;

private:
    double si_ = 0;
};

template <int S, int B, int F, int J, int S2, int B2, int F2, int J2>
constexpr auto operator*(Quantity<S, B, F, J> a, Quantity<S2, B2, F2, J2> b) {
    using Product = Quantity<S + S2, B + B2, F + F2, J + J2>;
    if constexpr (std::is_same_v<Product, Quantity<0, 0, 0>>)
        return a.si() * b.si();
    else
        return Product(a.si() * b.si());
}
template <int S, int B, int F, int J, int S2, int B2, int F2, int J2>
constexpr auto operator/(Quantity<S, B, F, J> a, Quantity<S2, B2, F2, J2> b) {
    using Ratio = Quantity<S - S2, B - B2, F - F2, J - J2>;
    if constexpr (std::is_same_v<Ratio, Quantity<0, 0, 0>>)
        return a.si() / b.si();
    else
        return Ratio(a.si() / b.si());
}

using Seconds = Quantity<1, 0, 0>;
using Bytes = Quantity<0, 1, 0>;
using Flops = Quantity<0, 0, 1>;
using BytesPerSecond = Quantity<-1, 1, 0>;
using FlopsPerSecond = Quantity<-1, 0, 1>;
using Joules = Quantity<0, 0, 0, 1>;
using Watts = Quantity<-1, 0, 0, 1>;

namespace literals {
constexpr Seconds operator""_s(long double v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_s(unsigned long long v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_ms(long double v) { return Seconds(static_cast<double>(v) * 1e-3); }
constexpr Seconds operator""_ms(unsigned long long v) { return Seconds(static_cast<double>(v) * 1e-3); }
constexpr Seconds operator""_us(long double v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Seconds operator""_us(unsigned long long v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<double>(v)); }
constexpr Bytes operator""_KiB(unsigned long long v) { return Bytes(static_cast<double>(v) * 1024.0); }
constexpr Bytes operator""_MiB(unsigned long long v) { return Bytes(static_cast<double>(v) * 1048576.0); }
constexpr BytesPerSecond operator""_GBps(long double v) { return BytesPerSecond(static_cast<double>(v) * 1e9); }
constexpr BytesPerSecond operator""_GBps(unsigned long long v) { return BytesPerSecond(static_cast<double>(v) * 1e9); }
constexpr FlopsPerSecond operator""_TFLOPps(long double v) { return FlopsPerSecond(static_cast<double>(v) * 1e12); }
constexpr FlopsPerSecond operator""_TFLOPps(unsigned long long v) {
    return FlopsPerSecond(static_cast<double>(v) * 1e12);
}
}  // namespace literals

// Reads "8 us", "60 d", "80 GiB", "312 TFLOP/s", "900 GB/s" (GB is 1e9, GiB is 2^30). Throws ConfigError with what was found and what
// was expected; the caller adds position and key in front.
Seconds parse_seconds(std::string_view text);
Bytes parse_bytes(std::string_view text);
BytesPerSecond parse_bandwidth(std::string_view text);
FlopsPerSecond parse_flop_rate(std::string_view text);
Watts parse_power(std::string_view text);

// The shortest text with a suitable prefix that reads back to within 1e-6 relative: "8 us", "1.5 GiB", "312 TFLOP/s".
std::string to_string(Seconds value);
std::string to_string(Bytes value);
std::string to_string(BytesPerSecond value);
std::string to_string(FlopsPerSecond value);
std::string to_string(Watts value);

// The same, but for files: reads back to exactly the same value.
std::string exact_text(Seconds value);
std::string exact_text(Bytes value);
std::string exact_text(BytesPerSecond value);
std::string exact_text(FlopsPerSecond value);

}  // namespace stepcast
