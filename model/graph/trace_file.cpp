#include <array>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/files/csv.h"
#include "model/records/run_folder.h"

namespace stepcast {
namespace {

constexpr std::array<std::pair<Trace::Origin, const char*>, 3> origins{{{Trace::Origin::simulated, "simulated"},
                                                                        {Trace::Origin::executed, "executed"},
                                                                        {Trace::Origin::imported, "imported"}}};
constexpr int most_ranks = 1 << 20;  // of a trace
const std::vector<std::string> header{"task", "rank", "lane", "start_s", "finish_s"};

}  // namespace

std::string write_trace(const Trace& trace, const std::string& graph_stamp) {
    std::string text;
    for (const auto& [origin, name] : origins)
        if (origin == trace.origin)
            text = fmt::format("# stepcast trace 1, {}{}{}\n{}\n", name, graph_stamp.empty() ? "" : ", graph ", graph_stamp,
                               fmt::join(header, ","));
    for (const Span& span : trace.spans)
        text += fmt::format("{},{},{},{},{}\n", span.task, span.place.rank(), to_string(span.place.lane()),
                            span.start.si(), span.finish.si());
    return text;
}

TraceFile read_trace(const std::string& path) {
    CsvReader csv(path);
    TraceFile file;
    Trace& trace = file.trace;
    bool known = false;
    constexpr std::string_view stamp = " graph ";
    const bool any = csv.next();
    const bool stamped = any && csv.fields().size() == 3 && csv.fields()[2].starts_with(stamp);
    if (stamped) file.graph_stamp = csv.fields()[2].substr(stamp.size());
    if (any && (csv.fields().size() == 2 || stamped))
        for (const auto& [origin, name] : origins)
            if (csv.fields()[0] == "# stepcast trace 1" && csv.fields()[1] == std::string(" ") + name) {
                trace.origin = origin;
                known = true;
            }
    if (!known) csv.fail("not a trace; expected the first line \"# stepcast trace 1, executed\"");
    if (!csv.next() || csv.fields() != header)
        csv.fail(fmt::format("expected the header \"{}\"", fmt::join(header, ",")));
    while (csv.next()) {
        csv.expect_fields(header.size());
        try {
            const std::vector<std::string>& f = csv.fields();
            const int rank = csv_int(f[1], 0);
            if (rank >= most_ranks) throw ConfigError(fmt::format("rank {}; expected fewer than {}", rank, most_ranks));
            trace.spans.push_back({static_cast<TaskId>(csv_int(f[0], 0)), Place(rank, parse_name<Lane>(f[2])),
                                   Seconds(csv_number(f[3])), Seconds(csv_number(f[4]))});
        } catch (const ConfigError& e) {
            csv.fail(e.what());
        }
    }
    return file;
}

}  // namespace stepcast
