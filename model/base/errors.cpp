#include "model/base/errors.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "model/base/lists.h"
#include "model/base/plain_text.h"

namespace stepcast {
namespace {

// Levenshtein distance that counts a swap of two neighbours as one edit.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min(
                {last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before = std::exchange(last, row);
    }
    return last.back();
}

}  // namespace

std::vector<std::string> names_near(std::string_view word, std::span<const std::string> valid) {
    // short words are near everything; the distance has quadratic cost
    if (word.size() < 3 || word.size() > 200) return {};
    const std::string meant = lower_case(std::string(word));
    std::vector<std::string> longer;
    const std::string* nearest = nullptr;
    std::size_t least = word.size() / 3 + 1;
    for (const auto& candidate : valid) {
        const std::string name = lower_case(candidate);
        if (name == meant) return {candidate};
        if (name.starts_with(meant)) longer.push_back(candidate);
        if (const auto distance = edit_distance(meant, name); distance < least) {
            least = distance;
            nearest = &candidate;
        }
    }
    constexpr std::size_t few = 3;
    std::ranges::stable_sort(longer, {}, &std::string::size);
    if (longer.size() > few) longer.resize(few);
    if (nearest && (longer.empty() || least == 1)) return {*nearest};
    return longer;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> valid) {
    const std::vector<std::string> near = names_near(word, valid);
    std::string text;
    for (const std::size_t i : indices_of(near))
        text += (i == 0 ? "" : i + 1 < near.size() ? ", " : " or ") + ("\"" + near[i] + "\"");
    return text.empty() ? "" : ", did you mean " + text + "?";
}

}  // namespace stepcast
