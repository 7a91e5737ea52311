#include <algorithm>

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <memory>

#include "calibrate/profiles/trace_records.h"
#include "model/errors.h"

namespace stepcast {
namespace {

struct CloseDatabase {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
};
struct FinishStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

// An export, opened for reading only. Tables and columns differ by version: ask for what is there.
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
        each(fmt::format("SELECT name FROM pragma_table_info('{}')", table), [&](sqlite3_stmt* row) {
            found = found || column.empty() || text(row, 0) == column;
        });
        return found;
    }
    template <typename Take>
    void each(const std::string& query, Take take) const {
        sqlite3_stmt* raw = nullptr;
        if (sqlite3_prepare_v2(db_.get(), query.c_str(), -1, &raw, nullptr) != SQLITE_OK) fail();
        const std::unique_ptr<sqlite3_stmt, FinishStatement> statement(raw);
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
        throw ConfigError(path_ + ": SQLite says \"" + sqlite3_errmsg(db_.get()) + "\"; expected an Nsight Systems export");
    }
    std::string path_;
    std::unique_ptr<sqlite3, CloseDatabase> db_;
};

std::int64_t integer(sqlite3_stmt* row, int column) { return sqlite3_column_int64(row, column); }

// Nanoseconds. What lies further from 0 than a century is none, and sums of such would not be numbers.
std::int64_t moment(sqlite3_stmt* row, int column) {
    constexpr std::int64_t latest = 4'000'000'000'000'000'000;
    const std::int64_t time = integer(row, column);
    return time >= -latest && time <= latest ? time : 0;
}

std::int64_t finish_of(sqlite3_stmt* row, std::int64_t start) {
    return std::clamp(moment(row, 1), start, start + longest_record);
}

// Ids of calls repeat between processes.
std::uint64_t correlation(std::int64_t id, std::int64_t global) {
    return static_cast<std::uint64_t>(id & 0xffffffff) | static_cast<std::uint64_t>((global >> 24) & 0xffffff) << 32;
}

class Reader {
public:
    Reader(const std::string& path, TraceRecords& records, std::size_t most) : db_(path), r_(records), most_(most) {
        if (!db_.has("StringIds") || !(db_.has(kernels) || db_.has("TARGET_INFO_GPU")))
            throw ConfigError(path + ": is SQLite, but no Nsight Systems export (no table StringIds with " + kernels + ")");
    }
    void read() {
        devices();
        if (db_.has(kernels)) device_rows(kernels, "demangledName", "0", SpanKind::compute);
        if (db_.has("CUPTI_ACTIVITY_KIND_MEMCPY")) device_rows("CUPTI_ACTIVITY_KIND_MEMCPY", "", "bytes", SpanKind::copy);
        if (db_.has("CUPTI_ACTIVITY_KIND_MEMSET")) device_rows("CUPTI_ACTIVITY_KIND_MEMSET", "", "bytes", SpanKind::set);
        if (db_.has("CUPTI_ACTIVITY_KIND_RUNTIME")) calls();
        if (db_.has("NVTX_EVENTS")) ranges();
        r_.keep_below(most_);
    }

private:
    static constexpr const char* kernels = "CUPTI_ACTIVITY_KIND_KERNEL";

    // deviceId of activity is the CUDA ordinal, not the row's id.
    void devices() {
        if (!db_.has("TARGET_INFO_GPU")) return;
        const char* ordinal = db_.has("TARGET_INFO_GPU", "cuDevice") ? "cuDevice" : "id";
        db_.each(fmt::format("SELECT {}, name, smCount, totalMemory FROM TARGET_INFO_GPU", ordinal), [&](sqlite3_stmt* row) {
            r_.devices[static_cast<std::uint32_t>(integer(row, 0))] = {
                std::string(Database::text(row, 1)), static_cast<int>(integer(row, 2)),
                Bytes(static_cast<double>(integer(row, 3)))};
        });
    }
    bool count() {
        ++r_.events;
        if ((r_.events & 0xffff) == 0) r_.keep_below(most_);
        return true;
    }
    void device_rows(const std::string& table, const std::string& name, const std::string& bytes, SpanKind kind) {
        const std::string process = db_.has(table, "globalPid") ? "t.globalPid" : "0";
        const std::string named = name.empty() ? "''" : "s.value", join = name.empty() ? "" : " LEFT JOIN StringIds s ON s.id = t." + name;
        db_.each(fmt::format("SELECT t.start, t.end, t.correlationId, {}, t.deviceId, t.streamId, {}, {} FROM {} t{}", process,
                             named, bytes == "0" ? "0" : "t." + bytes, table, join),
                 [&](sqlite3_stmt* row) {
                     count();
                     const std::int64_t start = moment(row, 0);
                     if (start >= r_.window_end) return;
                     r_.first = std::min(r_.first, start);
                     const std::string_view text = Database::text(row, 6);
                     DeviceRecord record{start, finish_of(row, start), correlation(integer(row, 2), integer(row, 3)),
                                         r_.names.add(text), static_cast<std::uint32_t>(integer(row, 5)),
                                         static_cast<std::uint32_t>(integer(row, 4)), -1, kind,
                                         static_cast<double>(integer(row, 7))};
                     if (kind == SpanKind::compute && is_communication(text)) record.kind = SpanKind::communication;
                     r_.device.push_back(record);
                 });
    }
    void calls() {
        db_.each(
            "SELECT t.start, t.end, t.correlationId, t.globalTid, s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME t "
            "LEFT JOIN StringIds s ON s.id = t.nameId WHERE t.correlationId IS NOT NULL",
            [&](sqlite3_stmt* row) {
                count();
                const std::int64_t start = moment(row, 0), global = integer(row, 3);
                if (start >= r_.window_end) return;
                const std::string_view name = Database::text(row, 4);
                r_.calls.push_back({start, finish_of(row, start), correlation(integer(row, 2), global),
                                    r_.threads.add(std::to_string(global)), launches_kernel(name), launches_graph(name), waits_for_device(name)});
            });
    }
    // PyTorch's ranges carry sizes: "aten::mm, op_id = 12, sizes = [[8192, 4096], [4096, 4096]]".
    void ranges() {
        const bool ids = db_.has("NVTX_EVENTS", "textId");
        db_.each(fmt::format("SELECT n.start, n.end, n.globalTid, {} FROM NVTX_EVENTS n{} WHERE n.end IS NOT NULL AND "
                             "n.eventType IN (59, 60)",
                             ids ? "COALESCE(n.text, s.value)" : "n.text",
                             ids ? " LEFT JOIN StringIds s ON s.id = n.textId" : ""),
                 [&](sqlite3_stmt* row) {
                     count();
                     const std::int64_t start = moment(row, 0);
                     if (start >= r_.window_end) return;
                     const std::string_view range = Database::text(row, 3);
                     HostSpan span{start, finish_of(row, start), r_.threads.add(std::to_string(integer(row, 2))), 0, 0};
                     const std::size_t sizes = range.find("sizes = ");
                     span.name = r_.names.add(range.substr(0, std::min(range.find(", op_id"), range.find(", seq"))));
                     if (sizes != std::string_view::npos) {
                         r_.shapes = true;
                         span.inputs = r_.add_inputs({.dims = std::string(range.substr(sizes + 8)), .types = "", .strides = ""});
                     }
                     r_.host.push_back(span);
                 });
    }

    Database db_;
    TraceRecords& r_;
    std::size_t most_;
};

}  // namespace

TraceRecords read_nsight_records(const std::string& path, std::size_t most_bytes) {
    TraceRecords records;
    Reader(path, records, most_bytes).read();
    return records;
}

}  // namespace stepcast
