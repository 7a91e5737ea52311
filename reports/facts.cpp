#include "reports/pages.h"

#include <algorithm>

#include <fmt/format.h>

#include "reports/tables.h"
#include "reports/text.h"

namespace stepcast {
namespace {

Fact memory_fact(const MemoryUse& m) {
    const Bytes needed = m.peak + m.overheads;
    if (m.capacity <= Bytes(0)) return {"Memory of the fullest GPU", bytes_text(m.peak) + "; the device's own is not known"};
    const Bytes gap = m.fits ? m.capacity - needed : needed - m.capacity;
    const bool tight = m.fits && gap < 0.05 * m.capacity;
    const std::string overheads = m.overheads > Bytes(0) ? ", with context and allocator " + bytes_text(needed) : "";
    return {"Memory of the fullest GPU",
            fmt::format("{}: {}{} of {}, {} {}", m.fits ? "fits" : "DOES NOT FIT", bytes_text(m.peak), overheads, bytes_text(m.capacity),
                        bytes_text(gap), m.fits ? "free" : "too much"),
            !m.fits ? Tone::bad : tight ? Tone::doubt : Tone::good};
}

// The parts of the step that are a twentieth or more, largest first.
std::string bound_by(const Forecast& f) {
    std::vector<BreakdownPart> parts = parts_of(f.breakdown);
    std::ranges::stable_sort(parts, std::greater<>(), &BreakdownPart::time);
    const Seconds sum = total(f.breakdown);
    std::string text;
    for (const auto& [name, time] : parts)
        if (sum > Seconds(0) && time / sum >= 0.05) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, percent_text(time / sum));
    return text;
}

// "all_reduce.bytes up to 1.00 GiB, fitted on 512 B to 512.0 MiB" of the same in bytes.
std::string with_units(const std::string& note) {
    const bool bytes = note.substr(0, note.find(' ')).ends_with(".bytes");
    std::string text;
    for (std::size_t at = 0; at < note.size();) {
        std::size_t end = note.find_first_not_of("0123456789", at);
        if (end == std::string::npos) end = note.size();
        const bool number = end > at && at > 0 && note[at - 1] == ' ';
        if (number)
            text += bytes ? bytes_text(Bytes(std::stod(note.substr(at, end - at)))) : count_text(std::stod(note.substr(at, end - at)));
        else
            text += note.substr(at, ++end - at);
        at = number ? end : std::min(end, note.size());
    }
    return text;
}

std::string joined(const std::vector<std::string>& words, const char* between) { return fmt::format("{}", fmt::join(words, between)); }

}  // namespace

std::vector<Fact> facts_of(const Forecast& f) {
    std::vector<Fact> facts{memory_fact(f.memory)};
    if (const std::string parts = bound_by(f); !parts.empty()) facts.push_back({"What the step goes to", parts});
    if (f.tokens_per_second > 0 && f.gpus > 0)
        facts.push_back({"Throughput", fmt::format("{} tokens/s, {} a GPU", count_text(f.tokens_per_second),
                                                   count_text(f.tokens_per_second / f.gpus))});
    if (f.model_flops_utilization > 0)
        facts.push_back({"Model FLOP utilization", percent_text(f.model_flops_utilization)});
    facts.push_back({"Costs", calibrated_text(f),
                     !f.calibrated ? Tone::bad : prior_share(f) < 0.05 ? Tone::good : Tone::doubt});
    return facts;
}

std::string interval_text(const Forecast& f) {
    if (has_spread(f.step))
        return fmt::format("p10 .. p90 {}", range_text(f.step)) + (f.draws > 1 ? fmt::format(" over {} draws", f.draws) : "");
    return "one draw without noise: no interval";
}

SortedNotes sorted_notes(const std::vector<std::string>& notes) {
    constexpr std::string_view extrapolated = "extrapolated: ", kept = ": not determined by the data, kept its prior";
    SortedNotes sorted;
    for (const std::string& note : notes) {
        if (note.starts_with(extrapolated))
            sorted.beyond.push_back(note.substr(extrapolated.size()));
        else if (const auto at = note.find(kept); at != std::string::npos)
            sorted.undetermined.push_back(note.substr(0, at));
        else
            sorted.others.push_back(note);
    }
    return sorted;
}

std::vector<std::string> plain_warnings(const std::vector<std::string>& notes) {
    auto [beyond, undetermined, others] = sorted_notes(notes);
    for (std::string& note : beyond) note = with_units(note);
    std::vector<std::string> warnings;
    if (!beyond.empty())
        warnings.push_back("Outside what was measured (the laws are extrapolated): " + joined(beyond, "; ") + ".");
    if (!undetermined.empty())
        warnings.push_back(fmt::format("The measurements do not determine {} of the parameters, which stay at assumed values: {}.",
                                       undetermined.size(), joined(undetermined, ", ")));
    warnings.insert(warnings.end(), others.begin(), others.end());
    return warnings;
}

std::vector<Fact> provenance_of(const Cluster& cluster) {
    const std::string text = provenance_text(cluster), name = "cluster " + cluster.name;
    std::vector<Fact> facts{{name, text.starts_with(name + ": ") ? text.substr(name.size() + 2) : text}};
    if (!cluster.source.empty()) facts.push_back({"datasheet values of " + cluster.name, cluster.source});
    return facts;
}

std::vector<Fact> provenance_of(const Framework& framework) {
    if (framework.name.empty()) return {};
    std::string text = framework.about;
    if (framework.fitted) {
        text += fmt::format("; fitted {} to {} samples", framework.fitted->date, framework.fitted->samples);
        for (const HeldOutError& e : framework.fitted->errors)
            text += fmt::format("; {} {}: mean error {}, bias {}, worst {}", e.method, e.kind, percent_text(e.mape),
                                signed_percent_text(e.bias), signed_percent_text(e.worst));
    }
    return {{"framework " + framework.name, text}};
}

Fact program_fact(const std::string& version) {
    Fact fact{"program", {}};
    for (const char c : version) fact.text += c == '\n' ? ", " : std::string(1, c);
    return fact;
}

Table breakdown_table(const Forecast& f) {
    const Seconds sum = total(f.breakdown);
    Table table{"Where the step of the slowest rank goes", {{.name = "part", .is_text = true}, {"time"}, {"share"}}, {}};
    for (const auto& [name, time] : parts_of(f.breakdown))
        table.rows.push_back({{name}, time_cell(time), percent_cell(sum > Seconds(0) ? time / sum : 0)});
    return table;
}

Table memory_table(const Forecast& f) {
    const MemoryUse& m = f.memory;
    Table table{"Memory of the fullest GPU", {{.name = "what", .is_text = true}, {"size"}}, {}};
    for (const auto& [name, bytes] : {std::pair{"weights", m.weights}, {"gradients", m.gradients}, {"optimizer", m.optimizer},
                                      {"activations", m.activations}, {"buffers", m.buffers}, {"context and allocator", m.overheads}})
        table.rows.push_back({{name}, bytes_cell(bytes)});
    table.rows.push_back({{"all"}, bytes_cell(m.peak + m.overheads)});
    return table;
}

}  // namespace stepcast
