#include "import/profiles/import_profiles.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "import/profiles/byte_stream.h"
#include "import/profiles/kineto.h"
#include "import/profiles/link_records.h"
#include "import/profiles/nsight.h"
#include "import/profiles/profile_tables.h"
#include "import/profiles/profile_times.h"
#include "import/profiles/trace_events.h"
#include "import/profiles/trace_records.h"
#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

bool is_profile(const std::string& path) { return is_nsight(path) || is_kineto(path); }

// The profiles in a folder, sorted by name.
std::vector<std::string> files_of(const std::string& path) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) return {path};
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path, ignored))
        if (entry.is_regular_file(ignored) && is_profile(entry.path().string()))
            files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    return files;
}

std::vector<std::string> all_files(const std::vector<std::string>& named) {
    std::vector<std::string> paths;
    for (const std::string& path : named)
        for (std::string& file : files_of(path)) paths.push_back(std::move(file));
    return paths;
}

std::string milliseconds(Seconds time) { return fmt::format("{:.3f} ms", time.si() * 1e3); }

void describe(const Profile& p, std::vector<std::string>& report) {
    const DeviceTimes t = device_times(p);
    add_line(report, "{}: rank {}{}, {}; {} events, {} kernels, {} steps", p.path, p.rank,
             p.ranks > 0 ? fmt::format(" of {}", p.ranks) : "",
             p.device.name.empty() ? "device not named" : plain_text(p.device.name, ""),
             p.counts.events, p.counts.kernels, p.steps.size());
    add_line(
        report,
        "  GPU: {} from first to last work, {} busy, {} idle; computing {}, communicating {} ({} "
        "exposed), copies {}",
        milliseconds(t.span), milliseconds(t.busy), milliseconds(t.idle), milliseconds(t.compute),
        milliseconds(t.communication), milliseconds(t.exposed), milliseconds(t.copies));
    for (const std::string& note : p.notes) report.push_back("  " + note);
}

std::vector<std::string> import_traces(const ProfileImport& request) {
    std::vector<std::string> report;
    const std::vector<Profile> ranks = read_job(request.paths, report);
    const Sample like{.run_id = fs::path(request.out).stem().string(),
                      .system = request.system.empty() ? "profile" : request.system,
                      .model = request.model,
                      .ranks = std::max(ranks.front().ranks, as_int(ranks.size())),
                      .phase = ""};
    std::vector<Sample> samples;
    for (const Profile& p : ranks)
        for (Sample& s : profile_samples(p, like)) samples.push_back(std::move(s));
    std::vector<PlannedFile> files =
        profile_tables(ranks, request.out, request.context.nodes, report);
    files.push_back({request.out, write_measurements(samples)});
    add_line(report, "{}: {} rows of steps and phases", request.out, samples.size());
    write_whole(files);
    return report;
}

std::vector<std::string> import_benchmarks(const ProfileImport& request) {
    std::vector<std::string> report;
    std::string text = "op,ranks,nodes,bytes,time_us,in_place_us,gpu\n";
    long rows = 0, left_out = 0;
    for (const std::string& path : request.paths) {
        const NcclTestsLog log = read_nccl_tests(path, request.context);
        add_line(report, "{}: nccl-tests, {} rows", path, log.rows.size());
        for (const std::string& note : log.notes) report.push_back("  " + note);
        for (const NcclTestsRow& row : log.rows) {
            const CollectiveRow& r = row.out_of_place;
            if (r.nodes == 0) {
                ++left_out;
                continue;
            }
            ++rows;
            text += fmt::format(
                "{},{},{},{:.0f},{:.6g},{},{}\n", r.op, r.ranks, r.nodes, r.bytes.si(),
                r.time.si() * 1e6,
                row.in_place > Seconds(0) ? fmt::format("{:.6g}", row.in_place.si() * 1e6) : "",
                csv_field(row.gpu));
        }
    }
    if (rows == 0)
        refuse("{}: {} rows whose nodes are not stated; expected --nodes N", request.paths.front(),
               left_out);
    write_whole({{request.out, text}});
    add_line(report, "{}: {} rows of collectives", request.out, rows);
    return report;
}

}  // namespace

bool are_profiles(const std::vector<std::string>& paths) {
    std::error_code ignored;
    return !paths.empty() && std::ranges::all_of(paths, [&](const std::string& path) {
        if (fs::is_directory(path, ignored)) return !files_of(path).empty();
        return fs::is_regular_file(path, ignored) && (is_profile(path) || is_nccl_tests(path));
    });
}

std::vector<Profile> read_job(const std::vector<std::string>& paths,
                              std::vector<std::string>& report) {
    std::map<int, Profile> by_rank;
    int unnamed = 0;
    for (const std::string& path : all_files(paths))
        for (Profile& p : read_profiles(path)) {
            if (!p.rank_told) p.rank = unnamed++;
            describe(p, report);
            if (const auto [at, fresh] = by_rank.try_emplace(p.rank, std::move(p)); !fresh)
                refuse("{}: is rank {}, and so is {}; expected one trace a rank of one job", path,
                       at->first, at->second.path);
        }
    std::vector<Profile> ranks;
    for (auto& [_, p] : by_rank) {
        if (!ranks.empty() && ranks.front().ranks != p.ranks)
            refuse("{}: {} ranks, but {} says {}; expected traces of one job", p.path, p.ranks,
                   ranks.front().path, ranks.front().ranks);
        ranks.push_back(std::move(p));
    }
    if (ranks.front().ranks > as_int(ranks.size()) && ranks.size() > 1)
        add_line(report,
                 "{} of {} ranks are here: the transfer of a collective is the shortest of these",
                 ranks.size(), ranks.front().ranks);
    return ranks;
}

std::vector<RankUse> read_rank_use(const std::string& path) {
    std::vector<std::string> ignored;
    std::vector<RankUse> ranks;
    for (const Profile& p : read_job({path}, ignored))
        ranks.push_back({kernel_shares(p), idle_stretch(p)});
    return ranks;
}

std::vector<std::string> import_profiles(const ProfileImport& request) {
    const std::vector<std::string> paths = all_files(request.paths);
    for (const std::string& path : paths) {
        std::error_code none;
        if (fs::equivalent(path, request.out, none))
            throw ConfigError(request.out +
                              ": is an input itself; expected another file for --out");
    }
    if (paths.empty())
        refuse("{}: holds no profile; expected traces, one a rank", joined(request.paths, ", "));
    if (request.format == "profile") return import_traces(request);
    const auto traces = std::ranges::count_if(paths, is_profile);
    if (traces == 0) return import_benchmarks(request);
    if (traces != static_cast<long>(paths.size()))
        throw ConfigError(
            "import: profiles and nccl-tests output together; expected one kind a call");
    return import_traces(request);
}

bool is_communication(std::string_view kernel) {
    constexpr std::array words{
        "nccl",    "multimem_", "one_shot_all_reduce", "two_shot_all_reduce", "cross_device_reduce",
        "nvshmem", "rccl",      "deep_ep::",           "allreduce_fusion",    "quickreduce",
        "mscclpp"};
    if (kernel.starts_with("nccl") && !has(kernel, "Kernel")) return false;
    for (const std::string_view word : words)
        if (has(kernel, word)) return true;
    return false;
}

bool is_nsight(const std::string& path) {
    return beginning_of(path, 4096).starts_with(std::string("SQLite format 3\0", 16));
}

bool is_kineto(const std::string& path) { return is_trace(path); }

std::vector<Profile> read_profiles(const std::string& path) {
    std::vector<Profile> all;
    if (is_kineto(path)) {
        all.push_back(link_records(read_kineto_records(path), path));
        return all;
    }
    if (is_nsight(path)) {
        for (int n = 0, processes = 1; n < processes; ++n) {
            TraceRecords records = read_nsight_records(path, n);
            processes = records.processes;
            all.push_back(link_records(std::move(records), path));
        }
        return all;
    }
    throw ConfigError(path +
                      ": is neither a PyTorch profiler's trace (JSON, .json.gz) nor an Nsight "
                      "Systems SQLite export"
                      "; a .nsys-rep becomes one by: nsys export --type sqlite FILE");
}

}  // namespace stepcast
