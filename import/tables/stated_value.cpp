#include "import/tables/stated_value.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "import/tables/row_parts.h"
#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/text_search.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

using Words = std::vector<std::string>;

struct Scaled {
    std::string_view names;  // separated by blanks
    double scale;
};

// Seconds of a unit of time.
constexpr std::array times{
    Scaled{"s sec secs second seconds", 1},      Scaled{"ms msec millisecond milliseconds", 1e-3},
    Scaled{"us microsecond microseconds", 1e-6}, Scaled{"min mins minute minutes", 60},
    Scaled{"h hr hrs hour hours", 3600},         Scaled{"d day days", 86400}};
constexpr std::string_view steps = "step steps iteration iterations iter iters it batch batches";
constexpr std::string_view sequence_words =
    "sequence sequences seq seqs sample samples sentence sentences example examples";
constexpr std::string_view tokens = "token tokens tok toks";
constexpr std::string_view devices = "gpu gpus device devices chip chips accelerator gcd";

bool among(std::string_view names, std::string_view word) {
    for (std::size_t begin = 0; begin <= names.size();) {
        const auto end = std::min(names.find(' ', begin), names.size());
        if (names.substr(begin, end - begin) == word) return true;
        begin = end + 1;
    }
    return false;
}

std::optional<double> seconds_of(std::string_view word) {
    for (const auto& [names, scale] : times)
        if (among(names, word)) return scale;
    return std::nullopt;
}

// "tokens per sec per GPU (about)" -> tokens, s, gpu: the parts between slashes, without remarks.
Words parts_of(std::string unit) {
    unit = lower_case(unit.substr(0, unit.find_first_of("(,;")));
    for (auto at = unit.find(" per "); at != std::string::npos; at = unit.find(" per "))
        unit.replace(at, 5, "/");
    Words parts{""};
    for (const char c : unit) {
        if (c == '/')
            parts.emplace_back();
        else if (c != ' ' || (!parts.back().empty() && parts.back().back() != ' '))
            parts.back() += c;
    }
    for (std::string& part : parts)
        if (part.ends_with(' ')) part.pop_back();
    return parts;
}

// Factor of "k tokens" or "ktokens"; the word is left without it.
double thousands(std::string& word) {
    for (const auto& [prefix, scale] : {std::pair{"thousand ", 1e3},
                                        {"million ", 1e6},
                                        {"billion ", 1e9},
                                        {"k", 1e3},
                                        {"m", 1e6},
                                        {"b", 1e9},
                                        {"g", 1e9}}) {
        if (!word.starts_with(prefix)) continue;
        const auto rest = std::string_view(word).substr(std::string_view(prefix).size());
        const auto counted = rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
        if (!among(tokens, counted) && !among(sequence_words, counted)) continue;
        word = std::string(counted);
        return scale;
    }
    return 1;
}

// Tables may name the unit in the metric: "tokens/sec/gpu", "tokens_per_s".
std::string unit_of(const CaseRow& row) {
    if (!row.cell("unit").empty()) return row.cell("unit");
    std::string unit = row.cell("metric");
    std::ranges::replace(unit, '_', ' ');
    return unit;
}

// "s for 10 steps": the value is the time of that many.
double steps_named(const std::string& text) {
    const auto at = text.find(" for ");
    if (at == std::string::npos) return 1;
    const auto count = number_after(std::string_view(text), at);
    return count && *count > 0 ? *count : 1;
}

// Work of one step in the counted unit; 0 where the row does not say it.
double work_of(const CaseRow& row, std::string_view counted) {
    if (among(steps, counted)) return 1;
    const double gbs = count_in(row, "gbs").value_or(0);
    if (among(sequence_words, counted)) return gbs;
    return among(tokens, counted) ? gbs * count_in(row, "seq").value_or(0) : 0;
}

// Steps by a time: of a step or an iteration, not of a whole run.
std::vector<double> steps_by_time(const CaseRow& row, const Words& parts, double value) {
    const std::string metric = lower_case(row.cell("metric"));
    const bool of_steps = parts.size() == 2 && among(steps, parts[1]);
    const auto first = parts[0].substr(0, parts[0].find(' '));
    const double scale = seconds_of(first).value_or(0), count = steps_named(parts[0]);
    if (scale == 0 || parts.size() > 2 || (parts.size() == 2 && !of_steps)) return {};
    const bool run = count == 1 && (scale >= 60 || has(metric, "total") || has(metric, "runtime"));
    return run && !of_steps ? std::vector<double>{} : std::vector<double>{value * scale / count};
}

// Steps by a rate: of all GPUs or, where the unit does not say, of one.
std::vector<double> steps_by_rate(const CaseRow& row, Words parts, double value) {
    const double factor = thousands(parts[0]), work = work_of(row, parts[0]),
                 gpus = count_in(row, "gpus", 1);
    double second = 0;
    bool each = false;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        if (among(devices, parts[i])) each = true;
        if (const auto scale = seconds_of(parts[i])) second = *scale;
    }
    if (work == 0 || second == 0) return {};
    const double all = work * second / (value * factor);
    if (each) return {all / gpus};
    const bool told = has(unit_of(row), "(") && has(unit_of(row), "all");
    return told || among(steps, parts[0]) ? std::vector<double>{all}
                                          : std::vector<double>{all, all / gpus};
}

// Steps in seconds that value, unit and batch may mean; empty where they say nothing of a step.
std::vector<double> steps_by_value(const CaseRow& row) {
    if (!states(row, "value") || unit_of(row).empty()) return {};
    const double value = at_place("value", [&] { return csv_number(row.cell("value")); });
    if (!(value > 0)) return {};
    const Words parts = parts_of(unit_of(row));
    const auto found = steps_by_time(row, parts, value);
    return !found.empty() || parts.size() < 2 ? found : steps_by_rate(row, parts, value);
}

}  // namespace

// The first is of all GPUs, as published tables mean by this metric.
std::optional<double> step_by_value(const CaseRow& row) {
    const auto said = steps_by_value(row);
    if (said.empty()) return std::nullopt;
    const bool one = said.front() == said.back() || row.cell("metric") == "tokens_per_s";
    return one ? std::optional(said.front()) : std::nullopt;
}

void check_value(const CaseRow& row, Seconds step) {
    constexpr double printed_within = 0.02;  // throughputs are printed with two or three digits
    const auto said = steps_by_value(row);
    const auto agrees = [&](double s) {
        return std::abs(s - step.si()) <= printed_within * step.si();
    };
    if (said.empty() || std::ranges::any_of(said, agrees)) return;
    throw ConfigError(fmt::format("step_s: {}, but value {} {} makes {:.6g} s", row.cell("step_s"),
                                  row.cell("value"), row.cell("unit"), said.front()));
}

namespace {

// A row's value where it is of arithmetic.
struct StatedRate {
    double value = 0;         // TFLOP/s, or % of the peak
    bool share = false;       // of the peak
    bool may_be_all = false;  // "TFLOP/s" may be of all GPUs
};

std::optional<StatedRate> stated_rate(const CaseRow& row) {
    if (!states(row, "value")) return std::nullopt;
    const auto parts = parts_of(unit_of(row));
    const bool ratio = parts[0] == "mfu" || parts[0] == "hfu",
               share = ratio || unit_of(row).starts_with('%'), peta = parts[0].starts_with("pflop");
    if (!share && !peta && !parts[0].starts_with("tflop")) return std::nullopt;
    double value = at_place("value", [&] { return csv_number(row.cell("value")); });
    if (peta) value *= 1e3;
    if (ratio && value <= 1) value *= 100;
    return StatedRate{value, share, !share && parts.size() < 3};
}

// TFLOP/s of the peak that shares are of: the unit's ("% of 312"), else the GPU's.
double peak_of(const CaseRow& row, const Experiment& e) {
    return number_after(std::string_view(lower_case(unit_of(row))), "% of")
        .value_or(peak(e.cluster.gpu, e.workload.dtype).si() * 1e-12);
}

}  // namespace

void check_rate(const CaseRow& row, const Experiment& e, Seconds step) {
    const auto said = stated_rate(row);
    if (!said) return;
    constexpr double most = 2;  // covers all ways to count recompute, attention and vocabulary
    const double all =
        model_flops(e.workload, sequences_of_step(e.parallelism)).si() / step.si() * 1e-12;
    const double full = said->share ? peak_of(row, e) / 100 : 1;
    const double made = all / rank_count(e.cluster) / full;
    const auto agrees = [&](double rate) {
        return said->value > rate / most && said->value < rate * most;
    };
    if (agrees(made) || (said->may_be_all && agrees(all))) return;
    throw ConfigError(fmt::format(
        "step_s: {} makes {:.4g} {}, but value is {}; expected them within a factor of {}",
        row.cell("step_s"), made, said->share ? "% of the peak" : "TFLOP/s/GPU", row.cell("value"),
        most));
}

// Scores that a causal mask hides do not count; the forward counts once more where all of it is
// recomputed.
std::string above_peak(const CaseRow& row, const Experiment& e, Seconds step) {
    const Workload& w = e.workload;
    const bool again = states(row, "recompute") && e.parallelism.recompute == Recompute::full;
    const double sequences = sequences_of_step(e.parallelism),
                 seen = (model_flops(w, sequences) - masked_flops(w, sequences)).si(),
                 made = (again ? 4.0 / 3 : 1) * seen / step.si() / rank_count(e.cluster) * 1e-12,
                 most = peak(e.cluster.gpu, w.dtype).si() * 1e-12;
    if (most <= 0 || made <= most) return "";
    return fmt::format(
        "kept apart: step_s {} makes {:.4g} TFLOP/s/GPU{}, above the peak of {} in {}, {:.4g}; "
        "expected a longer step, fewer tokens, more or other GPUs",
        row.cell("step_s"), made, again ? " with all layers recomputed, as stated" : "",
        e.cluster.gpu.name, to_string(w.dtype), most);
}

}  // namespace stepcast
