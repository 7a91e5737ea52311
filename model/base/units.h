// Physical dimensions as types: seconds, bytes, floating-point operations and joules with integer
// exponents. Values are stored in SI base units; only units.cpp converts from and to text.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <type_traits>

namespace stepcast {

struct Exponents {
    int second, byte, flop, joule;
    friend bool operator==(const Exponents&, const Exponents&) = default;
};

// A number with dimension second^S byte^B flop^F joule^J. The quotient of equal dimensions is a
// plain double.
template <int S, int B, int F, int J = 0>
class Quantity {
public:
    static constexpr Exponents exponents{S, B, F, J};
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

inline constexpr FlopsPerSecond teraflops(1e12);

// Text of Seconds, Bytes, BytesPerSecond, FlopsPerSecond and Watts. Reads "8 us", "60 d", "80 GiB",
// "312 TFLOP/s", "900 GB/s" (GB is 1e9, GiB is 2^30). Throws ConfigError with what was found and
// what was expected; the caller adds position and key in front.
double parse_si(std::string_view text, const Exponents& of);
template <class T>
T parse_quantity(std::string_view text) {
    return T(parse_si(text, T::exponents));
}
inline constexpr auto parse_seconds = parse_quantity<Seconds>;
inline constexpr auto parse_bytes = parse_quantity<Bytes>;
inline constexpr auto parse_bandwidth = parse_quantity<BytesPerSecond>;
inline constexpr auto parse_flop_rate = parse_quantity<FlopsPerSecond>;

// The shortest text with a suitable prefix that reads back to within `tolerance` relative: "8 us",
// "1.5 GiB", "312 TFLOP/s".
std::string text_of_si(double value, const Exponents& of, double tolerance);
template <int S, int B, int F, int J>
std::string to_string(Quantity<S, B, F, J> value) {
    return text_of_si(value.si(), value.exponents, 1e-6);
}
// For files: reads back to exactly the same value.
template <int S, int B, int F, int J>
std::string exact_text(Quantity<S, B, F, J> value) {
    return text_of_si(value.si(), value.exponents, 0);
}

}  // namespace stepcast
