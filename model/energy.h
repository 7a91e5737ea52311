// Energy and power as types.
#pragma once

#include <compare>

#include "model/units.h"

namespace stepcast {

class Joules {
public:
    constexpr Joules() = default;
    constexpr explicit Joules(double si) : si_(si) {}
    [[nodiscard]] constexpr double si() const { return si_; }
    friend constexpr Joules operator+(Joules a, Joules b) { return Joules(a.si_ + b.si_); }
    friend constexpr Joules operator*(double f, Joules a) { return Joules(f * a.si_); }
    friend constexpr auto operator<=>(const Joules&, const Joules&) = default;

private:
    double si_ = 0;
};
class Watts {
public:
    constexpr Watts() = default;
    constexpr explicit Watts(double si) : si_(si) {}
    [[nodiscard]] constexpr double si() const { return si_; }
    friend constexpr Joules operator*(Watts a, Seconds t) { return Joules(a.si_ * t.si()); }
    friend constexpr auto operator<=>(const Watts&, const Watts&) = default;

private:
    double si_ = 0;
};

}  // namespace stepcast
