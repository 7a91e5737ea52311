#include "sim/sweep/worker.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace stepcast {
namespace {

// A number as it is written, or a range of two.
struct Number {
    std::string low, high;
};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// As numbers, for numbers without sign or fraction.
bool below(const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

std::string digits_at(std::string_view text, std::size_t at) {
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    return std::string(text.substr(at, end - at));
}

// Pieces of text between numbers: one more than there are numbers.
std::vector<std::string> parts_of(std::string_view text, std::vector<Number>& numbers) {
    constexpr std::string_view to = "..";
    std::vector<std::string> parts(1);
    for (std::size_t at = 0; at < text.size();) {
        if (!is_digit(text[at])) {
            parts.back() += text[at++];
            continue;
        }
        Number number;
        number.low = number.high = digits_at(text, at);
        at += number.low.size();
        const std::string after = text.substr(at).starts_with(to) ? digits_at(text, at + to.size()) : "";
        if (!after.empty()) {
            number.high = after;
            at += to.size() + after.size();
        }
        numbers.push_back(std::move(number));
        parts.emplace_back();
    }
    return parts;
}

}  // namespace

std::string with_ranges(std::string_view a, std::string_view b) {
    std::vector<Number> of_a, of_b;
    const std::vector<std::string> parts = parts_of(a, of_a);
    if (parts != parts_of(b, of_b)) return "";
    std::string text = parts.front();
    for (std::size_t i = 0; i < of_a.size(); ++i) {
        const std::string& low = std::min(of_a[i].low, of_b[i].low, below);
        const std::string& high = std::max(of_a[i].high, of_b[i].high, below);
        text += (low == high ? low : low + ".." + high) + parts[i + 1];
    }
    return text;
}

void count_reason(Reasons& reasons, std::string_view reason, std::uint64_t points) {
    if (const auto found = reasons.find(reason); found != reasons.end()) {
        found->second += points;
        return;
    }
    for (auto known = reasons.begin(); known != reasons.end(); ++known) {
        std::string joined = with_ranges(known->first, reason);
        if (joined.empty()) continue;
        points += known->second;
        reasons.erase(known);
        return count_reason(reasons, joined, points);
    }
    reasons.emplace(reason, points);
}

}  // namespace stepcast
