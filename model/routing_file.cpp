#include "model/routing_file.h"
#include "model/base/joined.h"

#include <filesystem>

#include <fmt/format.h>

#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/routing.h"

namespace stepcast {
namespace {

constexpr std::string_view first_line =
    "# stepcast routing 1, counts|block_totals, ranks R, experts E";
constexpr int most_ranks = 1 << 16, most_experts = 1 << 20, most_cells = 1 << 26,
              most_slots = 1 << 30;

int number_in(const CsvReader& csv, std::string_view text, std::string_view name, int least,
              int most) {
    int value = 0;
    try {
        value = csv_int(text, least);
    } catch (const ConfigError& e) {
        csv.fail(fmt::format("{}: {}", name, e.what()));
    }
    if (value > most)
        csv.fail(fmt::format("{}: {} is out of range; expected at most {}", name, value, most));
    return value;
}

// " ranks 4" -> 4
int labelled(const CsvReader& csv, const std::string& field, const std::string& label, int most) {
    const auto start = " " + label + " ";
    if (!field.starts_with(start))
        csv.fail("found \"" + field + "\"; expected \"" + label + " N\" as in \"" +
                 std::string(first_line) + "\"");
    return number_in(csv, std::string_view(field).substr(start.size()), label, 1, most);
}

int cell(const CsvReader& csv, std::size_t column, std::string_view name, int most) {
    return number_in(csv, csv.fields()[column], name, 0, most);
}

void expect_header(CsvReader& csv, const std::vector<std::string>& header) {
    if (csv.next() && csv.fields() == header) return;
    csv.fail(fmt::format("found \"{}\"; expected the header \"{}\"", joined(csv.fields(), ","),
                         joined(header, ",")));
}

// Reads exactly `expected` rows and passes each to `read`.
void read_rows(CsvReader& csv, std::size_t expected, const auto& read) {
    std::size_t rows = 0;
    for (; csv.next(); ++rows) {
        csv.expect_fields(3);
        read();
    }
    if (rows != expected)
        csv.fail(fmt::format(
            "file ends after {} rows; expected {} (ranks and experts are in its first line)", rows,
            expected));
}

void read_counts(CsvReader& csv, Routing& routing) {
    expect_header(csv, {"source", "expert", "slots"});
    if (static_cast<long>(routing.ranks) * routing.experts > most_cells)
        csv.fail("ranks x experts is above 2^26");
    routing.counts.assign(as_index(routing.ranks) * as_index(routing.experts), -1);
    read_rows(csv, routing.counts.size(), [&] {
        const auto source = as_index(cell(csv, 0, "source", routing.ranks - 1));
        const auto expert = as_index(cell(csv, 1, "expert", routing.experts - 1));
        auto& slots = routing.counts[source * as_index(routing.experts) + expert];
        if (slots >= 0)
            csv.fail(fmt::format("source {}, expert {} was given before", source, expert));
        slots = cell(csv, 2, "slots", most_slots);
    });
}

void read_totals(CsvReader& csv, Routing& routing) {
    expect_header(csv, {"rank", "blocks", "remote_blocks"});
    routing.totals.assign(as_index(routing.ranks), {-1, -1});
    read_rows(csv, routing.totals.size(), [&] {
        auto& total = routing.totals[as_index(cell(csv, 0, "rank", routing.ranks - 1))];
        if (total.blocks >= 0) csv.fail("rank " + csv.fields()[0] + " was given before");
        total.blocks = cell(csv, 1, "blocks", most_slots);
        total.remote = cell(csv, 2, "remote_blocks", total.blocks);
    });
}

// "moe_routing.csv#8/skewed": the layer of that name from a table experts,gate,expert,count of
// several layers on one rank.
Routing read_named(const std::string& path, const std::string& name) {
    CsvReader csv(path);
    expect_header(csv, {"experts", "gate", "expert", "count"});
    Routing routing;
    routing.ranks = 1;
    while (csv.next()) {
        csv.expect_fields(4);
        if (csv.fields()[0] + "/" + csv.fields()[1] != name) continue;
        routing.experts = cell(csv, 0, "experts", most_experts);
        if (cell(csv, 2, "expert", routing.experts - 1) != as_int(routing.counts.size()))
            csv.fail(fmt::format("expert: {}; expected {}, the next", csv.fields()[2],
                                 routing.counts.size()));
        routing.counts.push_back(cell(csv, 3, "count", most_slots));
    }
    if (routing.counts.empty() || as_int(routing.counts.size()) != routing.experts)
        csv.fail(fmt::format("holds {} experts of {}; expected as many as its name says",
                             routing.counts.size(), name));
    return routing;
}

}  // namespace

std::pair<std::string, std::string> routing_parts(const std::string& file) {
    const std::size_t hash = std::filesystem::exists(file) ? std::string::npos : file.rfind('#');
    return {file.substr(0, hash), hash == std::string::npos ? "" : file.substr(hash)};
}

Routing read_routing(const std::string& path) {
    if (const auto name = path.rfind(".csv#"); name != std::string::npos)
        return read_named(path.substr(0, name + 4), path.substr(name + 5));
    CsvReader csv(path);
    if (!csv.next() || csv.fields()[0] != "# stepcast routing 1" || csv.fields().size() != 4)
        csv.fail("not a routing file; expected the first line \"" + std::string(first_line) + "\"");
    const auto what = csv.fields()[1];
    Routing routing;
    routing.ranks = labelled(csv, csv.fields()[2], "ranks", most_ranks);
    routing.experts = labelled(csv, csv.fields()[3], "experts", most_experts);
    if (routing.experts % routing.ranks != 0)
        csv.fail(fmt::format("{} experts cannot be spread over {} ranks; expected a multiple",
                             routing.experts, routing.ranks));
    if (what == " counts")
        read_counts(csv, routing);
    else if (what == " block_totals")
        read_totals(csv, routing);
    else
        csv.fail("found \"" + what + "\"; expected counts or block_totals");
    return routing;
}

std::string write_routing(const Routing& routing) {
    const bool counts = routing.totals.empty();
    auto text = fmt::format("# stepcast routing 1, {}, ranks {}, experts {}\n",
                            counts ? "counts" : "block_totals", routing.ranks, routing.experts);
    text += counts ? "source,expert,slots\n" : "rank,blocks,remote_blocks\n";
    if (counts)
        for (int source = 0; source < routing.ranks; ++source)
            for (int expert = 0; expert < routing.experts; ++expert)
                text += fmt::format("{},{},{}\n", source, expert, routing.count(source, expert));
    else
        for (const std::size_t rank : indices_of(routing.totals))
            text += fmt::format("{},{},{}\n", rank, routing.totals[rank].blocks,
                                routing.totals[rank].remote);
    return text;
}

}  // namespace stepcast
