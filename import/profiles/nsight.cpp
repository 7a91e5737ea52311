#include "import/profiles/nsight.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "import/profiles/import_profiles.h"
#include "import/profiles/trace_records.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"

namespace stepcast {
namespace {

// An export, opened read-only. Tables and columns differ by version, so readers ask which exist.
class Database {
public:
    explicit Database(const std::string& path) : path_(path) {
        sqlite3* db = nullptr;
        const int code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
        db_.reset(db);
        if (code != SQLITE_OK) fail();
    }
    [[nodiscard]] bool has(const std::string& table, const std::string& column = "") const {
        bool found = false;
        each(fmt::format("SELECT name FROM pragma_table_info('{}')", table),
             [&](sqlite3_stmt* row) { found = found || column.empty() || text(row, 0) == column; });
        return found;
    }
    template <typename Take>
    void each(const std::string& query, Take take) const {
        sqlite3_stmt* raw = nullptr;
        if (sqlite3_prepare_v2(db_.get(), query.c_str(), -1, &raw, nullptr) != SQLITE_OK) fail();
        const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw,
                                                                              sqlite3_finalize);
        for (;;) {
            const int code = sqlite3_step(raw);
            if (code == SQLITE_DONE) return;
            if (code != SQLITE_ROW) fail();
            take(raw);
        }
    }
    static std::string_view text(sqlite3_stmt* row, int column) {
        const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
        return bytes == nullptr ? std::string_view() : std::string_view(bytes);
    }

private:
    [[noreturn]] void fail() const {
        throw ConfigError(path_ + ": SQLite says \"" + sqlite3_errmsg(db_.get()) +
                          "\"; expected an Nsight Systems export");
    }
    std::string path_;
    std::unique_ptr<sqlite3, int (*)(sqlite3*)> db_{nullptr, sqlite3_close};
};

std::int64_t integer(sqlite3_stmt* row, int column) { return sqlite3_column_int64(row, column); }

// Nanoseconds. Times further from 0 than a century become 0, as they are invalid and their sums
// would overflow.
std::int64_t moment(sqlite3_stmt* row, int column) {
    constexpr std::int64_t latest = 4'000'000'000'000'000'000;
    const std::int64_t time = integer(row, column);
    return time >= -latest && time <= latest ? time : 0;
}

Length length_of(sqlite3_stmt* row, std::int64_t start) { return Length(moment(row, 1) - start); }

// Includes the process, as ids of calls repeat between processes.
std::uint64_t correlation(std::int64_t id, std::int64_t global) {
    return static_cast<std::uint64_t>(id & 0xffffffff) |
           static_cast<std::uint64_t>((global >> 24) & 0xffffff) << 32;
}

class NsightReader {
public:
    NsightReader(const std::string& path, TraceRecords& records, int n, std::size_t most)
        : db_(path), r_(records), most_(most) {
        if (!db_.has("StringIds") || !(db_.has(kernels) || db_.has("TARGET_INFO_GPU")))
            throw ConfigError(
                path + ": is SQLite, but no Nsight Systems export (no table StringIds with " +
                kernels + ")");
        const auto all = processes();
        if (all.size() < 2) return;
        r_.processes = as_int(all.size());
        process_ = all.at(as_index(n)).second;
    }
    void read() {
        devices();
        if (db_.has(kernels))
            device_rows(kernels, db_.has(kernels, "demangledName") ? "demangledName" : "shortName",
                        "0", SpanKind::compute);
        if (db_.has("CUPTI_ACTIVITY_KIND_MEMCPY"))
            device_rows("CUPTI_ACTIVITY_KIND_MEMCPY", "", "bytes", SpanKind::copy);
        if (db_.has("CUPTI_ACTIVITY_KIND_MEMSET"))
            device_rows("CUPTI_ACTIVITY_KIND_MEMSET", "", "bytes", SpanKind::set);
        if (db_.has(graphs)) {
            const long before = r_.profile.counts.events;
            device_rows(graphs, "", "0", SpanKind::compute, "CUDA graph, as a whole");
            r_.whole_graphs = r_.profile.counts.events - before;
        }
        if (db_.has("CUPTI_ACTIVITY_KIND_RUNTIME")) calls();
        if (db_.has("NVTX_EVENTS")) ranges();
        r_.keep_below(most_);
    }

private:
    static constexpr const char* kernels = "CUPTI_ACTIVITY_KIND_KERNEL";
    static constexpr const char* graphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

    // (device, globalPid) of the processes that worked on a GPU, sorted: first by the smallest CUDA
    // ordinal of their work, then by globalPid, since with CUDA_VISIBLE_DEVICES every rank's device
    // may be 0.
    [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> processes() const {
        std::map<std::int64_t, std::int64_t> device;
        for (const char* table : {kernels, graphs})
            if (db_.has(table, "globalPid"))
                db_.each(fmt::format("SELECT globalPid, MIN(deviceId) FROM {} GROUP BY globalPid",
                                     table),
                         [&](sqlite3_stmt* row) {
                             const auto [at, fresh] =
                                 device.try_emplace(integer(row, 0), integer(row, 1));
                             if (!fresh) at->second = std::min(at->second, integer(row, 1));
                         });
        std::vector<std::pair<std::int64_t, std::int64_t>> all;
        for (const auto& [id, ordinal] : device) all.emplace_back(ordinal, id);
        std::ranges::sort(all);
        return all;
    }
    // Whether a row with this thread or process id (`global`) belongs to the process that is read.
    [[nodiscard]] bool ours(std::int64_t global) const {
        return !process_ || global >> 24 == *process_ >> 24;
    }

    // The deviceId of activities is the CUDA ordinal, not the id of a row in this table.
    void devices() {
        if (!db_.has("TARGET_INFO_GPU")) return;
        const char* ordinal = db_.has("TARGET_INFO_GPU", "cuDevice") ? "cuDevice" : "id";
        db_.each(fmt::format("SELECT {}, name, smCount, totalMemory FROM TARGET_INFO_GPU", ordinal),
                 [&](sqlite3_stmt* row) {
                     r_.devices[static_cast<std::uint32_t>(integer(row, 0))] = {
                         std::string(Database::text(row, 1)), as_int(integer(row, 2)),
                         Bytes(real(integer(row, 3)))};
                 });
    }
    // Passes on rows of the process read (named in column `global`) that start within the window.
    // Column 0 of the query must be the start.
    template <typename Take>
    void rows(const std::string& query, int global, Take take) {
        db_.each(query, [&](sqlite3_stmt* row) {
            if (!ours(integer(row, global))) return;
            if ((++r_.profile.counts.events & 0xffff) == 0) r_.keep_below(most_);
            if (const std::int64_t start = moment(row, 0); start < r_.window_end) take(row, start);
        });
    }
    void device_rows(const std::string& table, const std::string& name, const std::string& bytes,
                     SpanKind kind, const std::string& all_named = "") {
        const std::string process = db_.has(table, "globalPid") ? "t.globalPid" : "0";
        const std::string named = name.empty() ? "'" + all_named + "'" : "s.value",
                          join = name.empty() ? "" : " LEFT JOIN StringIds s ON s.id = t." + name;
        rows(fmt::format("SELECT t.start, t.end, t.correlationId, {}, t.deviceId, t.streamId, {}, "
                         "{} FROM {} t{}",
                         process, named, bytes == "0" ? "0" : "t." + bytes, table, join),
             3, [&](sqlite3_stmt* row, std::int64_t start) {
                 r_.first = std::min(r_.first, start);
                 const std::string_view text = Database::text(row, 6);
                 DeviceRecord record{.start = start,
                                     .correlation = correlation(integer(row, 2), integer(row, 3)),
                                     .length = length_of(row, start),
                                     .name = r_.names.add(text),
                                     .stream = static_cast<std::uint32_t>(integer(row, 5)),
                                     .device = static_cast<std::uint32_t>(integer(row, 4)),
                                     .bytes = static_cast<float>(integer(row, 7)),
                                     .kind = kind};
                 if (kind == SpanKind::compute && is_communication(text))
                     record.kind = SpanKind::communication;
                 r_.device.push_back(record);
             });
    }
    void calls() {
        rows(
            "SELECT t.start, t.end, t.correlationId, t.globalTid, s.value FROM "
            "CUPTI_ACTIVITY_KIND_RUNTIME t "
            "LEFT JOIN StringIds s ON s.id = t.nameId WHERE t.correlationId IS NOT NULL",
            3, [&](sqlite3_stmt* row, std::int64_t start) {
                const std::int64_t global = integer(row, 3);
                const std::string_view name = Database::text(row, 4);
                r_.calls.push_back({start, correlation(integer(row, 2), global),
                                    length_of(row, start), r_.threads.add(std::to_string(global)),
                                    launches_kernel(name), launches_graph(name),
                                    waits_for_device(name)});
            });
    }
    // NCCL's ranges (domain NCCL, since 2.1x) have bytes, peers and communicator in binaryData. Its
    // layout in exports is not documented, so they are only counted. PyTorch's ranges have sizes:
    // "aten::mm, op_id = 12, sizes = [[8192, 4096], [4096, 4096]]".
    void ranges() {
        const bool ids = db_.has("NVTX_EVENTS", "textId"),
                   payloads = db_.has("NVTX_EVENTS", "binaryData");
        rows(
            fmt::format("SELECT n.start, n.end, n.globalTid, {}, {} FROM NVTX_EVENTS n{} WHERE "
                        "n.end IS NOT NULL AND "
                        "n.eventType IN (59, 60)",
                        ids ? "COALESCE(n.text, s.value)" : "n.text",
                        payloads ? "n.binaryData IS NOT NULL" : "0",
                        ids ? " LEFT JOIN StringIds s ON s.id = n.textId" : ""),
            2, [&](sqlite3_stmt* row, std::int64_t start) {
                const std::string_view range = Database::text(row, 3);
                if (range.starts_with("nccl") && integer(row, 4) != 0) ++r_.nccl_payloads;
                HostSpan span{start, length_of(row, start),
                              r_.threads.add(std::to_string(integer(row, 2))), 0, 0};
                const std::size_t sizes = range.find("sizes = ");
                span.name = r_.names.add(
                    range.substr(0, std::min(range.find(", op_id"), range.find(", seq"))));
                if (sizes != std::string_view::npos) {
                    r_.profile.shapes = true;
                    span.inputs = r_.add_inputs(
                        {.dims = std::string(range.substr(sizes + 8)), .types = "", .strides = ""});
                }
                if (is_step(range)) r_.steps.push_back(span);
                r_.host.push_back(span);
            });
    }

    // Whether a range has a name that training loops give to steps: "ProfilerStep#6", "iteration
    // 12", "step_7".
    static bool is_step(std::string_view range) {
        const std::size_t digits = range.find_last_not_of("0123456789") + 1;
        if (digits == 0 || digits == range.size()) return false;
        std::string word = lower_case(std::string(range.substr(0, digits)));
        while (!word.empty() && (word.back() == ' ' || word.back() == '#' || word.back() == '_' ||
                                 word.back() == ':'))
            word.pop_back();
        return word == "profilerstep" || word == "iteration" || word == "iter" || word == "step" ||
               word == "train_step";
    }

    Database db_;
    TraceRecords& r_;
    std::size_t most_;
    std::optional<std::int64_t> process_;  // globalPid, if there are several processes
};

}  // namespace

TraceRecords read_nsight_records(const std::string& path, int n, std::size_t most_bytes) {
    TraceRecords records;
    NsightReader(path, records, n, most_bytes).read();
    return records;
}

}  // namespace stepcast
