#include "import/profiles/nccl_tests.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "import/profiles/byte_stream.h"
#include "import/profiles/json_numbers.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"

namespace stepcast {
namespace {

using Words = std::vector<std::string>;
constexpr std::size_t longest_output = std::size_t{64} << 20;

struct TestName {
    std::string_view program, op;
};
constexpr std::array programs = {TestName{"all_reduce", "all_reduce"},
                                 TestName{"all_gather", "all_gather"},
                                 TestName{"reduce_scatter", "reduce_scatter"},
                                 TestName{"alltoall", "all_to_all"},
                                 TestName{"all_to_all", "all_to_all"},
                                 TestName{"broadcast", "broadcast"},
                                 TestName{"sendrecv", "send_recv"},
                                 TestName{"hypercube", "hypercube"},
                                 TestName{"gather", "gather"},
                                 TestName{"scatter", "scatter"},
                                 TestName{"reduce", "reduce"}};
bool is_of_steps(std::string_view op) {
    return op != "gather" && op != "scatter" && op != "hypercube";
}

std::string op_in(std::string_view text, std::string_view suffix) {
    for (const TestName& test : programs)
        if (has(text, std::string(test.program) + std::string(suffix))) return std::string(test.op);
    return "";
}

std::string whole_text(const std::string& path) {
    ByteStream stream(path);
    std::string text, piece(std::size_t{1} << 16, '\0');
    for (std::size_t count = 1; count > 0 && text.size() <= longest_output;
         text.append(piece, 0, count))
        count = stream.read(piece.data(), piece.size());
    if (text.size() > longest_output)
        refuse("{}: more than {} bytes; expected the output of nccl-tests", path, longest_output);
    return plain_utf8(text);
}

// What a first word is without a launcher's prefix ("3:", "[1,0]<stdout>:") and without #.
std::string without_prefix(std::string word) {
    const auto digits = word.find_first_not_of("0123456789");
    if (digits > 0 && digits == word.size() - 1 && word.back() == ':') return "";
    if (word.front() == '[' && has(word, "]<std"))
        word.erase(0, std::min(word.find(':'), word.size() - 1) + 1);
    if (word.starts_with('#')) word.erase(0, 1);
    return word;
}

// The words of a line, without a launcher's prefix ("3: ", "[1,0]<stdout>:").
Words line_words(std::string_view line) {
    std::istringstream in{std::string(line)};
    Words words;
    for (std::string word; in >> word;) {
        if (words.empty()) word = without_prefix(std::move(word));
        if (!word.empty()) words.push_back(word);
    }
    return words;
}

std::optional<double> number(const std::string& word) {
    const auto value = as_number<double>(word);
    return value && std::isfinite(*value) ? value : std::nullopt;
}

// Removes what a launcher or a log collector writes before the line's own words ("node-a:", a time
// stamp).
void drop_prefix(Words& w) {
    constexpr std::size_t longest = 4;
    std::erase(w, "#");
    for (std::size_t i = 1; i <= longest && i < w.size(); ++i) {
        const bool heading =
            w[i] == "nThread" || w[i] == "size" || (w[i] == "Rank" && contains(w, "device"));
        const bool row = w.size() >= i + 6 && number(w[i]) && number(w[i + 1]) &&
                         std::isalpha(static_cast<unsigned char>(w[i + 2].front())) != 0;
        if (heading || row)
            return void(w.erase(w.begin(), w.begin() + static_cast<std::ptrdiff_t>(i)));
    }
}

// One table of a file, from header to header: devices, columns and rows.
struct NcclTable {
    std::string op;
    struct Device {
        int group = 0, rank = 0;
        std::string host;
    };
    std::vector<Device> devices;
    // to 2020 a column "error" has the largest deviation, later "#wrong" a count
    bool deviations = false;
    std::string gpu;
    Words columns;
    struct Row {
        double bytes = 0, time = 0, in_place = 0, algorithm = 0, bus = 0;
        std::string redop;
    };
    std::vector<Row> rows;
    int wrong = 0, empty = 0;
};

std::size_t column(const Words& columns, std::string_view name, int nth = 0) {
    for (const std::size_t i : indices_of(columns))
        if (columns[i] == name && nth-- == 0) return i;
    return columns.size();
}

std::optional<double> cell(const NcclTable& t, const Words& words, std::string_view name,
                           int nth = 0) {
    const std::size_t at = column(t.columns, name, nth);
    return at < words.size() ? number(words[at]) : std::nullopt;
}

void read_device(const Words& w, NcclTable& t) {
    int group = 0;
    const int rank =
        w.size() > 1 ? static_cast<int>(std::clamp(number(w[1]).value_or(0), 0.0, 1e6)) : 0;
    for (std::size_t i = 0; i + 1 < w.size(); ++i) {
        if (w[i] == "Group")
            group = static_cast<int>(std::clamp(number(w[i + 1]).value_or(0), 0.0, 1e6));
        if (w[i] == "on") t.devices.push_back({group, rank, w[i + 1]});
    }
    const auto bus = std::ranges::find_if(
        w, [](const std::string& word) { return word.front() == '[' && word.back() == ']'; });
    if (bus != w.end() && bus + 1 != w.end()) t.gpu = joined(std::vector(bus + 1, w.end()), " ");
}

bool is_row(const Words& w) {
    return w.size() >= 6 && number(w[0]) && number(w[1]) && !number(w[2]) && !has(w[0], '.');
}

// By how much a result of the type may deviate (nccl-tests of 2019, src/common.cu, as remembered:
// its own check of the deviation).
double allowed_deviation(const std::string& type) {
    if (type == "half" || type == "bfloat16") return 1e-2;
    return type == "float" ? 1e-5 : type == "double" ? 1e-12 : 0;
}

void read_row(Words w, NcclTable& t) {
    const std::size_t redop = column(t.columns, "redop");
    // to 2.11 blank where nothing is summed
    if (redop < w.size() && number(w[redop]))
        w.insert(w.begin() + static_cast<std::ptrdiff_t>(redop), "");
    const auto time = cell(t, w, "time");
    const auto wrong = cell(t, w, "wrong");
    if (!time || !(*time > 0) || *number(w[0]) <= 0) return void(++t.empty);
    if (wrong && *wrong > (t.deviations ? allowed_deviation(w[2]) : 0)) return void(++t.wrong);
    t.rows.push_back({*number(w[0]), *time, cell(t, w, "time", 1).value_or(0),
                      cell(t, w, "algbw").value_or(0), cell(t, w, "busbw").value_or(0),
                      redop < w.size() ? w[redop] : ""});
}

void begin_run(std::vector<NcclTable>& tables) {
    NcclTable& last = tables.back();
    if (!last.rows.empty() || last.empty + last.wrong > 0)
        tables.emplace_back();
    else
        last.devices.clear();  // of a run that broke off
}

void begin_columns(const Words& w, std::vector<NcclTable>& tables) {
    if (!tables.back().rows.empty()) {
        NcclTable next;  // the same devices, another table
        next.devices = tables.back().devices;
        next.gpu = tables.back().gpu;
        tables.push_back(next);
    }
    NcclTable& t = tables.back();
    t.columns = w;
    t.deviations = column(w, "error") < w.size();
    for (std::string& name : t.columns)
        if (name == "#wrong" || name == "error") name = "wrong";
}

std::vector<NcclTable> tables_of_text(const std::string& path, const std::string& text) {
    std::vector<NcclTable> tables(1);
    std::istringstream in(text);
    int number_of_line = 0;
    for (std::string line; std::getline(in, line);) {
        ++number_of_line;
        Words w = line_words(line);
        drop_prefix(w);
        if (w.empty()) continue;
        if (w[0] == "nThread" || has(line, "Collective test starting")) {
            begin_run(tables);
        }
        if (const std::string op = op_in(line, "_perf"); !op.empty() && tables.back().rows.empty())
            tables.back().op = op;
        if (w[0] == "Rank" && contains(w, "device"))
            read_device(w, tables.back());
        else if (w[0] == "size" && column(w, "cputime") < w.size()) {
            refuse(
                "{}:{}: times of the host (nccl-tests -C), which are no transfer's; "
                "expected a run without -C",
                path, number_of_line);
        } else if (w[0] == "size" && column(w, "time") < w.size()) {
            begin_columns(w, tables);
        } else if (is_row(w) && !tables.back().columns.empty()) {
            read_row(w, tables.back());
        }
    }
    std::erase_if(tables, [](const NcclTable& t) { return t.columns.empty(); });
    return tables;
}

std::vector<NcclTable> tables_of_json(const std::string& path, const std::string& text) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.contains("results"))
        throw ConfigError(path + ": is no JSON of nccl-tests (no \"results\")");
    NcclTable t;
    t.op = op_in(json.value("args", nlohmann::json()).dump() + " ", "_perf");
    t.columns = {"size"};
    for (const auto& d : json.value("devices", nlohmann::json::array())) {
        t.devices.push_back({whole_number<int>(d.value("group", nlohmann::json())).value_or(0),
                             whole_number<int>(d.value("rank", nlohmann::json()))
                                 .value_or(as_int(t.devices.size())),
                             d.value("host", d.value("hostname", ""))});
        t.gpu = d.value("name", d.value("device_name", t.gpu));
    }
    for (const auto& r : json["results"]) {
        const auto out = r.value("out_of_place", nlohmann::json::object());
        if (!(out.value("time", 0.0) > 0) || !(r.value("size", 0.0) > 0)) {
            ++t.empty;
        } else if (out.value("nwrong", 0.0) > 0) {
            ++t.wrong;
        } else {
            t.rows.push_back({r.value("size", 0.0), out.value("time", 0.0),
                              r.value("in_place", nlohmann::json::object()).value("time", 0.0),
                              out.value("alg_bw", 0.0), out.value("bus_bw", 0.0),
                              r.value("redop", "")});
        }
    }
    return {t};
}

// Bus / algorithm bandwidth, from the row with most digits: 2 (n-1)/n for an all-reduce, (n-1)/n or
// 1 for others; 0: too few digits.
double factor_of(const NcclTable& t) {
    const auto widest =
        std::ranges::max_element(t.rows, {}, [](const auto& row) { return row.bus; });
    return widest == t.rows.end() || widest->algorithm < 1 ? 0 : widest->bus / widest->algorithm;
}

int ranks_of(const NcclTable& t, const std::string& op, double factor) {
    const auto first_group = std::ranges::count_if(
        t.devices, [&](const auto& d) { return d.group == t.devices.front().group; });
    if (first_group > 0) return as_int(first_group);
    if (op == "all_reduce" && factor > 1.01 && factor < 1.999)
        return as_int(std::lround(2 / (2 - factor)));
    if ((op == "all_gather" || op == "reduce_scatter" || op == "all_to_all") && factor > 0.4 &&
        factor < 0.999)
        return as_int(std::lround(1 / (1 - factor)));
    return 0;
}

// Bus over algorithm bandwidth of an operation between so many ranks; 0 if it is none that is
// known.
double expected_factor(const std::string& op, int ranks) {
    const double n = ranks;
    if (op == "all_reduce") return 2 * (n - 1) / n;
    if (op == "all_gather" || op == "reduce_scatter" || op == "all_to_all") return (n - 1) / n;
    return op == "broadcast" || op == "reduce" || op == "send_recv" ? 1 : 0;
}

// Processes that were built without MPI, or started apart, print one table each, all with rank 0,
// and none of them communicates.
void require_one_run(const std::string& path, const NcclTable& t, const std::string& op,
                     int ranks) {
    constexpr const char* remedy =
        "expected nccl-tests built with MPI=1 and started by mpirun or srun, or one run a file";
    std::set<std::pair<int, int>> seen;
    for (const auto& d : t.devices)
        if (!seen.emplace(d.group, d.rank).second)
            refuse(
                "{}: rank {} of group {} is there twice: {} device lines of separate "
                "processes, which do not communicate; {}",
                path, d.rank, d.group, t.devices.size(), remedy);
    if (ranks == 1 && !t.devices.empty())
        refuse("{}: a run of one rank, which communicates with none; {}", path, remedy);
    const auto widest = std::ranges::max_element(t.rows, {}, &NcclTable::Row::algorithm);
    constexpr double digits = 10, rounding = 0.02;
    if (ranks < 2 || widest == t.rows.end() || widest->algorithm < digits || t.devices.empty())
        return;
    const double expected = expected_factor(op, ranks), found = widest->bus / widest->algorithm;
    if (expected > 0 && std::abs(found - expected) > rounding)
        refuse(
            "{}: {} GB/s and {} on the bus are not those of {} between the {} ranks of "
            "its device lines; {}",
            path, widest->algorithm, widest->bus, op, ranks, remedy);
}

// `said`: by --op, "" = nothing.
void check_operation(const std::string& path, const NcclTable& t, const std::string& said) {
    if (said.empty()) return;
    if (!contains(programs, said, &TestName::op))
        throw ConfigError("--op " + said +
                          ": no operation of nccl-tests; expected all_reduce, all_gather, "
                          "reduce_scatter, all_to_all, broadcast or send_recv");
    if (!t.op.empty() && said != t.op)
        throw ConfigError(path + ": it says that it timed " + t.op + ", --op says " + said +
                          "; expected no --op");
}

std::string operation_of(const std::string& path, const NcclTable& t, const std::string& said,
                         double factor) {
    if (!t.op.empty()) return t.op;
    if (!said.empty()) return said;
    if (const auto named = op_in(std::filesystem::path(path).filename().string(), "");
        !named.empty())
        return named;
    if (factor > 1.01) return "all_reduce";  // no other operation has a factor above 1
    const bool sums = !t.rows.empty() && t.rows.front().redop == "sum";
    if (sums && factor > 0.4 && factor < 0.99) return "reduce_scatter";
    const int left = t.wrong + t.empty;
    refuse("{}: says nowhere which operation it timed{}; expected --op all_gather, all_to_all, ..",
           path,
           left > 0 ? fmt::format(", and {} of its {} rows have wrong results or no time", left,
                                  left + as_int(t.rows.size()))
                    : "");
}

void add_table(const std::string& path, const NcclTable& t, const NcclTestsContext& context,
               NcclTestsLog& log) {
    const double factor = factor_of(t);
    check_operation(path, t, context.op);
    const std::string op = operation_of(path, t, context.op, factor);
    if (!is_of_steps(op))
        return log.notes.push_back(op + ": no operation of a training step; left out");
    int ranks = context.ranks > 0 ? context.ranks : ranks_of(t, op, factor);
    if (context.ranks == 0) require_one_run(path, t, op, ranks);
    if (ranks < 2)
        throw ConfigError(
            path + ": no device lines and no bandwidths that show the ranks; expected --ranks N");
    if (t.devices.empty() && context.ranks == 0)
        add_line(log.notes, "{}: {} ranks, from bus over algorithm bandwidth", op, ranks);
    std::set<std::string> hosts;
    for (const auto& device : t.devices)
        if (device.group == t.devices.front().group) hosts.insert(device.host);
    const int nodes = context.nodes > 0 ? context.nodes : as_int(hosts.size());
    if (nodes == 0) log.notes.push_back(op + ": nodes not stated; use --nodes N");
    if (t.wrong > 0) add_line(log.notes, "{}: {} rows with wrong results left out", op, t.wrong);
    if (t.empty > 0) add_line(log.notes, "{}: {} rows without bytes or time left out", op, t.empty);
    const Seconds us = Seconds(1e-6);
    for (const NcclTable::Row& row : t.rows) {
        NcclTestsRow& added = log.rows.emplace_back();
        added.out_of_place = {op, ranks, nodes, Bytes(row.bytes), row.time * us};
        added.in_place = row.in_place * us;
        added.gpu = t.gpu;
    }
}

}  // namespace

bool is_nccl_tests(const std::string& path) {
    const std::string text = plain_utf8(beginning_of(path, std::size_t{1} << 16));
    const bool table = has(text, "algbw") && has(text, "busbw");
    const bool json = has(text, "\"out_of_place\"") && has(text, "\"results\"");
    return table || json || has(text, "# nThread") || has(text, "nccl-tests version");
}

NcclTestsLog read_nccl_tests(const std::string& path, const NcclTestsContext& context) {
    const std::string text = whole_text(path);
    const std::size_t first = text.find_first_not_of(" \r\n\t");
    const bool json = first != std::string::npos && text[first] == '{';
    NcclTestsLog log;
    for (const NcclTable& table : json ? tables_of_json(path, text) : tables_of_text(path, text))
        if (!table.rows.empty() || table.wrong + table.empty > 0)
            add_table(path, table, context, log);
    if (!log.rows.empty()) return log;
    if (log.notes.empty())
        throw ConfigError(
            path +
            ": no row of results; the run stopped before its first, or is no nccl-tests output");
    refuse("{}: no row of results that counts: {}", path, joined(log.notes, "; "));
}

}  // namespace stepcast
