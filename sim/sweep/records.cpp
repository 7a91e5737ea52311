#include "sim/sweep/records.h"

#include <algorithm>
#include <cmath>
#include <concepts>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/plain_text.h"
#include "model/input/key_values.h"

namespace stepcast {
namespace {

constexpr std::size_t column_count = 12;

// One line. Fields that a record does not have stay empty.
struct Record {
    std::string_view kind;
    std::string base = {}, inner = {}, step = {}, lower = {}, estimate = {}, peak = {}, tokens = {},
                price = {}, ranks = {}, count = {}, text = {};
};
std::string line(const Record& r) {
    std::string text;
    for (const char c : plain_text(r.text))
        text += c == '"' ? std::string("\"\"") : std::string(1, c);
    return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", r.kind, r.base, r.inner, r.step,
                       r.lower, r.estimate, r.peak, r.tokens, r.price, r.ranks, r.count,
                       text.empty() ? "" : '"' + text + '"');
}
template <class T>
std::string exact(T value) {
    if constexpr (requires { value.si(); })
        return fmt::format("{}", value.si());
    else
        return fmt::format("{}", value);
}

template <class T>
T number(std::string_view text) {
    const auto value = as_number<T>(text);
    if (!value) throw ConfigError(fmt::format("\"{}\" is no number", text));
    if constexpr (std::floating_point<T>)
        if (!std::isfinite(*value) || *value < 0)
            throw ConfigError(fmt::format("\"{}\" is no time or size; expected 0 or more", text));
    return *value;
}

std::string record_of(std::string_view kind, std::uint64_t count) {
    return line({.kind = kind, .count = exact(count)});
}
std::string record_of(const Candidate& c) {
    return line({.kind = "candidate",
                 .base = exact(c.id.base),
                 .inner = exact(c.id.inner),
                 .step = exact(c.kind),
                 .lower = exact(c.lower),
                 .estimate = exact(c.estimate),
                 .peak = exact(c.peak),
                 .tokens = exact(c.tokens),
                 .price = exact(c.price),
                 .ranks = exact(c.ranks),
                 .count = exact(int{c.tight})});
}
std::string record_of(const SimulatedPoint& p) {
    return line({.kind = p.refused.empty() ? "simulated" : "refused",
                 .base = exact(p.id.base),
                 .inner = exact(p.id.inner),
                 .step = exact(p.step),
                 .ranks = exact(int{p.unreplayed}),
                 .count = exact(int{p.tight}),
                 .text = p.refused});
}
// The scores take the columns of step and bound.
std::string record_of(const Incumbent& i) {
    return line({.kind = "incumbent",
                 .base = exact(i.id.base),
                 .inner = exact(i.id.inner),
                 .step = exact(i.score.first),
                 .lower = exact(i.score.second),
                 .tokens = exact(i.kind),
                 .ranks = exact(int{i.score.tight}),
                 .count = exact(i.group)});
}

std::string records_of(std::string_view kind, const Reasons& reasons) {
    std::string lines;
    for (const auto& [reason, points] : reasons)
        lines += line({.kind = kind, .count = exact(points), .text = reason});
    return lines;
}

std::string records_of(const MapCells& cells) {
    std::string lines;
    for (const auto& [at, step] : cells)
        lines += line({.kind = "cell",
                       .base = exact(at.first),
                       .inner = exact(at.second),
                       .estimate = exact(step)});
    return lines;
}

std::string records_of(const Screened& s) {
    std::string lines;
    for (const Candidate& c : s.candidates) lines += record_of(c);
    lines += records_of("illegal", s.illegal) + records_of("infeasible", s.infeasible);
    return lines + records_of(s.cells) + record_of("bounded_away", s.bounded_away) +
           record_of("legal", s.legal) + record_of("tight", s.tight);
}

using RecordFields = std::vector<std::string>;
PointId id_in(const RecordFields& f) {
    return {number<std::uint64_t>(f[1]), number<std::uint64_t>(f[2])};
}

// A quoted text may hold commas, and "" for a quote.
RecordFields record_fields(std::string_view line) {
    RecordFields fields(1);
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
            fields.back() += line[++i];
        else if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            fields.emplace_back();
        else
            fields.back() += c;
    }
    if (fields.size() != column_count)
        throw ConfigError(fmt::format("{} fields, expected {}", fields.size(), column_count));
    return fields;
}

std::uint64_t count_in(const RecordFields& f) { return number<std::uint64_t>(f[10]); }

void read_record(const RecordFields& f, SweepJobResult& into) {
    const std::string& kind = f.front();
    Screened& screened = into.screened;
    if (kind == "candidate")
        screened.candidates.push_back(
            {id_in(f), Seconds(number<double>(f[4])), Seconds(number<double>(f[5])),
             Bytes(number<double>(f[6])), number<double>(f[7]), number<double>(f[8]),
             number<int>(f[9]), number<int>(f[10]) == 1, number<std::uint64_t>(f[3])});
    else if (kind == "cell")
        screened.cells[{number<int>(f[1]), number<int>(f[2])}] = Seconds(number<double>(f[5]));
    else if (kind == "illegal" || kind == "infeasible")
        (kind == "illegal" ? screened.illegal : screened.infeasible)[f[11]] = count_in(f);
    else if (kind == "bounded_away" || kind == "legal" || kind == "tight")
        (kind == "legal"   ? screened.legal
         : kind == "tight" ? screened.tight
                           : screened.bounded_away) = count_in(f);
    else if (kind == "simulated" || kind == "refused")
        into.simulated.push_back({id_in(f), Seconds(number<double>(f[3])),
                                  kind == "refused" ? f[11] : "", number<int>(f[10]) == 1,
                                  number<int>(f[9]) == 1});
    else
        throw ConfigError("\"" + kind + "\" is no record");
}

// Calls take(fields) for each line.
template <class Take>
void each_record(std::string_view records, Take take) {
    for (std::size_t end; !records.empty(); records.remove_prefix(end + 1)) {
        end = std::min(records.find('\n'), records.size() - 1);
        take(record_fields(records.substr(0, end)));
    }
}

}  // namespace

std::string records_of(const SweepJob& job) {
    std::string lines;
    for (const std::uint64_t item : job.items) lines += record_of("item", item);
    if (job.scouted > 0) lines += record_of("scouted", job.scouted);
    for (const Candidate& c : job.points) lines += record_of(c);
    for (const Incumbent& i : job.incumbents) lines += record_of(i);
    return lines + records_of(job.cells);
}

std::string records_of(const SweepJobResult& result) {
    std::string lines = records_of(result.screened);
    for (const SimulatedPoint& p : result.simulated) lines += record_of(p);
    return lines;
}

SweepJob job_of(std::string_view records) {
    SweepJob job;
    SweepJobResult points;
    each_record(records, [&](const RecordFields& f) {
        if (f.front() == "item")
            job.items.push_back(count_in(f));
        else if (f.front() == "scouted")
            job.scouted = count_in(f);
        else if (f.front() == "incumbent")
            job.incumbents.push_back(
                {{number<double>(f[3]), number<double>(f[4]), number<int>(f[9]) == 1},
                 id_in(f),
                 count_in(f),
                 number<std::uint64_t>(f[7])});
        else
            read_record(f, points);
    });
    job.points = std::move(points.screened.candidates);
    job.cells = std::move(points.screened.cells);
    return job;
}

SweepJobResult result_of(std::string_view records) {
    SweepJobResult result;
    each_record(records, [&](const RecordFields& f) { read_record(f, result); });
    return result;
}

}  // namespace stepcast
