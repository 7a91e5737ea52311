#include "sim/sweep/reasons.h"

#include <algorithm>

#include "model/base/characters.h"
#include "sim/sweep/worker.h"

namespace stepcast {
namespace {

// Compares numbers without sign or fraction.
bool below(const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
}

// Returns the digits at the start of the text, and removes them from it.
std::string take_digits(std::string_view& text) {
    const std::string digits(text.begin(), std::ranges::find_if_not(text, is_digit));
    text.remove_prefix(digits.size());
    return digits;
}

// Takes the number or range at the start of the text, and removes it. Dots without a digit behind
// them are no part of it.
void take_numbers(std::string_view& text, std::vector<std::string>& numbers) {
    numbers.push_back(take_digits(text));
    if (!text.starts_with("..") || text.size() == 2 || !is_digit(text[2])) return;
    text.remove_prefix(2);
    numbers.push_back(take_digits(text));
}

}  // namespace

std::string with_ranges(std::string_view a, std::string_view b) {
    std::string text;
    while (!a.empty() && !b.empty()) {
        if (is_digit(a.front()) && is_digit(b.front())) {
            std::vector<std::string> numbers;
            take_numbers(a, numbers);
            take_numbers(b, numbers);
            const auto [low, high] = std::ranges::minmax(numbers, below);
            text += low == high ? low : low + ".." + high;
            continue;
        }
        if (a.front() != b.front()) return "";
        text += a.front();
        a.remove_prefix(1);
        b.remove_prefix(1);
    }
    return a.empty() && b.empty() ? text : "";
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
