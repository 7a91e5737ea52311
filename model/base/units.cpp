#include "model/base/units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"

namespace stepcast {
namespace {

// Value = number * 10^power (decimal) or number * 2^power, times `times`.
struct UnitName {
    std::string_view name;
    bool decimal;
    int power;
    bool printed = true;  // false: accepted when reading, never printed
    // 1/8 for units in bits, as links are sold in bit/s; 60 for a minute, and so on
    double times = 1;
};

struct Dimension {
    Exponents exponents;
    std::string_view what, example;
    std::span<const UnitName> units;  // ascending
};

constexpr UnitName time_units[] = {{"ns", true, -9},
                                   {"us", true, -6},
                                   {"\u00b5s", true, -6, false},
                                   {"ms", true, -3},
                                   {"s", true, 0},
                                   {"min", true, 0, false, 60},
                                   {"h", true, 0, false, 3600},
                                   {"d", true, 0, false, 86400},
                                   {"days", true, 0, false, 86400},
                                   {"w", true, 0, false, 604800},
                                   {"weeks", true, 0, false, 604800}};
constexpr UnitName byte_units[] = {{"B", true, 0},         {"KiB", false, 10}, {"kB", true, 3},
                                   {"KB", true, 3, false}, {"MiB", false, 20}, {"MB", true, 6},
                                   {"GiB", false, 30},     {"GB", true, 9},    {"TiB", false, 40},
                                   {"TB", true, 12}};
constexpr double a_bit = 0.125;
constexpr UnitName bandwidth_units[] = {{"B/s", true, 0},
                                        {"KiB/s", false, 10, false},
                                        {"kB/s", true, 3},
                                        {"KB/s", true, 3, false},
                                        {"MiB/s", false, 20, false},
                                        {"MB/s", true, 6},
                                        {"GiB/s", false, 30, false},
                                        {"GB/s", true, 9},
                                        {"TiB/s", false, 40, false},
                                        {"TB/s", true, 12},
                                        {"kBps", true, 3, false},
                                        {"MBps", true, 6, false},
                                        {"GBps", true, 9, false},
                                        {"TBps", true, 12, false},
                                        {"b/s", true, 0, false, a_bit},
                                        {"kb/s", true, 3, false, a_bit},
                                        {"Mb/s", true, 6, false, a_bit},
                                        {"Gb/s", true, 9, false, a_bit},
                                        {"Tb/s", true, 12, false, a_bit},
                                        {"kbps", true, 3, false, a_bit},
                                        {"Mbps", true, 6, false, a_bit},
                                        {"Gbps", true, 9, false, a_bit},
                                        {"Tbps", true, 12, false, a_bit},
                                        {"kbit/s", true, 3, false, a_bit},
                                        {"Mbit/s", true, 6, false, a_bit},
                                        {"Gbit/s", true, 9, false, a_bit},
                                        {"Tbit/s", true, 12, false, a_bit}};
constexpr UnitName flop_rate_units[] = {
    {"FLOP/s", true, 0},        {"kFLOP/s", true, 3},        {"MFLOP/s", true, 6},
    {"GFLOP/s", true, 9},       {"TFLOP/s", true, 12},       {"PFLOP/s", true, 15},
    {"GFLOPS", true, 9, false}, {"TFLOPS", true, 12, false}, {"PFLOPS", true, 15, false}};

constexpr UnitName power_units[] = {{"W", true, 0}, {"kW", true, 3}};
constexpr Dimension dimensions[] = {
    {Seconds::exponents, "a time", "8 us", time_units},
    {Bytes::exponents, "bytes", "80 GiB", byte_units},
    {BytesPerSecond::exponents, "bytes per second", "900 GB/s", bandwidth_units},
    {FlopsPerSecond::exponents, "floating-point operations per second", "312 TFLOP/s",
     flop_rate_units},
    {Watts::exponents, "a power", "700 W", power_units}};

const Dimension& dimension_of(const Exponents& exponents) {
    const auto* const found = std::ranges::find(dimensions, exponents, &Dimension::exponents);
    if (found == std::end(dimensions)) throw std::logic_error("a quantity without units");
    return *found;
}

std::string expected(const Dimension& d) {
    return "; expected " + std::string(d.what) + ", for example \"" + std::string(d.example) + "\"";
}
std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

double number_of(std::string_view text) { return as_number<double>(text).value_or(std::nan("")); }

// Joins the unit's decimal exponent to the digits before the single rounding to double, so that
// "3.1 us" is 3.1e-6 exactly.
double scaled(std::string_view number, const UnitName& unit) {
    if (!unit.decimal) return std::ldexp(number_of(number), unit.power) * unit.times;
    const auto e = number.find_first_of("eE");
    int exponent = unit.power;
    if (e != std::string_view::npos) {
        int own = 0;
        const auto* from = number.data() + e + 1 + (number.substr(e + 1).starts_with('+') ? 1 : 0);
        if (std::from_chars(from, number.data() + number.size(), own).ec != std::errc())
            return std::nan("");
        exponent += own;
    }
    return number_of(std::string(number.substr(0, e)) + "e" + std::to_string(exponent)) *
           unit.times;
}

// Case distinguishes bits from bytes and milli from mega. A text in lower case distinguishes
// neither.
bool may_mean(std::string_view found, std::string_view unit) {
    const std::string small = lower_case(std::string(found));
    if (small != lower_case(std::string(unit))) return false;
    if (found == small) return true;
    for (const std::size_t i : indices_of(found))
        if (found[i] != unit[i] &&
            std::string_view("bBmM").find(found[i]) != std::string_view::npos)
            return false;
    return true;
}

// Suggests units that `found` may mean. If these are different quantities (gb/s), it names all and
// proposes none. A unit that is only similar in spelling is another quantity and no hint.
std::string unit_hint(std::string_view found, const Dimension& dimension) {
    std::vector<const UnitName*> near;
    for (const auto& unit : dimension.units)
        if (may_mean(found, unit.name)) near.push_back(&unit);
    if (near.empty()) return "";
    if (std::ranges::all_of(
            near, [&](const UnitName* u) { return scaled("1", *u) == scaled("1", *near.front()); }))
        return ", did you mean " + quoted(near.front()->name) + "?";
    std::string names;
    for (const UnitName* unit : near)
        names += (names.empty() ? "" : " or ") + quoted(unit->name) +
                 (unit->times < 1 ? " (bits)" : " (bytes)");
    return "; write " + names;
}

}  // namespace

double parse_si(std::string_view text, const Exponents& of) {
    const Dimension& dimension = dimension_of(of);
    const auto body = trimmed(text);
    double bare = 0;
    const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), bare);
    if (end == body.data())
        throw ConfigError(quoted(text) + " is not a number with a unit" + expected(dimension));
    const auto digits = as_index(end - body.data());
    const auto unit_text = trimmed(body.substr(digits));
    if (unit_text.empty()) throw ConfigError(quoted(text) + " has no unit" + expected(dimension));
    for (const auto& unit : dimension.units) {
        if (unit.name != unit_text) continue;
        const double value = scaled(body.substr(0, digits), unit);
        if (error != std::errc() || !std::isfinite(value))
            throw ConfigError(quoted(text) + " is not a finite number" + expected(dimension));
        return value;
    }
    throw ConfigError(quoted(text) + " has the unknown unit " + quoted(unit_text) +
                      expected(dimension) + unit_hint(unit_text, dimension));
}

namespace {

// Decimal digits of a positive number 0.digits * 10^point: the fewest that read back within
// `tolerance`.
struct Decimal {
    std::string digits;
    int point = 0;
};
Decimal decimal_of(double value, double tolerance) {
    char text[40];
    for (int precision = 0;; ++precision) {  // 16 digits after the first read back any double
        const auto end =
            std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, precision)
                .ptr;
        const std::string_view whole(text, as_index(end - text));
        if (std::abs(number_of(whole) - value) > tolerance * value) continue;
        const auto e = whole.find('e');
        Decimal result;
        for (const char c : whole.substr(0, e))
            if (c != '.') result.digits += c;
        result.point = std::stoi(std::string(whole.substr(e + 1))) + 1;
        result.digits.erase(result.digits.find_last_not_of('0') + 1);
        return result;
    }
}

std::string plain(const Decimal& d) {
    const auto size = as_int(d.digits.size());
    if (d.point > 18 || d.point < -6)
        return d.digits.substr(0, 1) + (size > 1 ? "." + d.digits.substr(1) : "") + "e" +
               std::to_string(d.point - 1);
    if (d.point <= 0) return "0." + std::string(as_index(-d.point), '0') + d.digits;
    if (d.point >= size) return d.digits + std::string(as_index(d.point - size), '0');
    return d.digits.substr(0, as_index(d.point)) + "." + d.digits.substr(as_index(d.point));
}

}  // namespace

// Of the largest decimal and the largest binary unit not above the value, uses the one with fewer
// digits.
std::string text_of_si(double value, const Exponents& of, double tolerance) {
    const Dimension& dimension = dimension_of(of);
    const UnitName& base = *std::ranges::find_if(
        dimension.units, [](const UnitName& u) { return u.decimal && u.power == 0; });
    if (value == 0 || !std::isfinite(value))
        return std::to_string(value).substr(0, value == 0 ? 1 : 4) + " " + std::string(base.name);
    const double size = std::abs(value);
    const UnitName* decimal = nullptr;
    const UnitName* binary = nullptr;
    for (const auto& unit : dimension.units) {
        if (!unit.printed) continue;
        if (unit.decimal && (!decimal || size >= scaled("1", unit) * (1 - 1e-7))) decimal = &unit;
        if (!unit.decimal && size >= scaled("1", unit)) binary = &unit;
    }
    auto number = decimal_of(size, tolerance);
    number.point -= decimal->power;
    auto text = plain(number);
    auto name = decimal->name;
    if (binary) {
        const auto other = plain(decimal_of(std::ldexp(size, -binary->power), tolerance));
        if (other.size() < text.size()) {
            text = other;
            name = binary->name;
        }
    }
    return (value < 0 ? "-" : "") + text + " " + std::string(name);
}

}  // namespace stepcast
