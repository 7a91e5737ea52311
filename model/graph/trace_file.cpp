#include "model/graph/trace_file.h"
#include "model/base/joined.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/refuse.h"
#include "model/records/run_folder.h"

namespace stepcast {
namespace {

constexpr int most_trace_ranks = 1 << 20;  // in a trace
const std::vector<std::string> trace_columns{"task", "rank", "lane", "start_s", "finish_s"};

}  // namespace

std::string write_trace(const Trace& trace, const std::string& graph_stamp) {
    std::string text =
        fmt::format("# stepcast trace 1, {}{}{}\n{}\n", to_string(trace.origin),
                    graph_stamp.empty() ? "" : ", graph ", graph_stamp, joined(trace_columns, ","));
    for (const Span& span : trace.spans)
        text += fmt::format("{},{},{},{},{}\n", span.task, span.place.rank(),
                            to_string(span.place.lane()), span.start.si(), span.finish.si());
    return text;
}

TraceFile read_trace(const std::string& path) {
    CsvReader csv(path);
    TraceFile file;
    constexpr std::string_view stamp = " graph ";
    const std::vector<std::string> first = csv.next() ? csv.fields() : std::vector<std::string>{};
    const bool stamped = first.size() == 3 && first[2].starts_with(stamp);
    const bool whole = (first.size() == 2 || stamped) && first[0] == "# stepcast trace 1" &&
                       first[1].starts_with(' ');
    if (!whole || std::ranges::find(name_list<Trace::Origin>, first[1].substr(1)) ==
                      name_list<Trace::Origin>.end())
        csv.fail("not a trace; expected the first line \"# stepcast trace 1, executed\"");
    file.trace.origin = parse_name<Trace::Origin>(first[1].substr(1));
    if (stamped) file.graph_stamp = first[2].substr(stamp.size());
    if (!csv.next() || csv.fields() != trace_columns)
        csv.fail(fmt::format("expected the header \"{}\"", joined(trace_columns, ",")));
    while (csv.next()) {
        csv.expect_fields(trace_columns.size());
        try {
            const std::vector<std::string>& f = csv.fields();
            const int rank = csv_int(f[1], 0);
            if (rank >= most_trace_ranks)
                refuse("rank {}; expected fewer than {}", rank, most_trace_ranks);
            file.trace.spans.push_back({static_cast<TaskId>(csv_int(f[0], 0)),
                                        Place(rank, parse_name<Lane>(f[2])),
                                        Seconds(csv_number(f[3])), Seconds(csv_number(f[4]))});
        } catch (const ConfigError& e) {
            csv.fail(e.what());
        }
    }
    return file;
}

}  // namespace stepcast
