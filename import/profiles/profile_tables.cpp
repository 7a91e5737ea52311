#include "import/profiles/profile_tables.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "import/profiles/collective_times.h"
#include "import/profiles/operators.h"
#include "import/profiles/profile_times.h"
#include "import/profiles/table_words.h"
#include "measured/medians.h"
#include "model/base/csv.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"
#include "model/records/measurement_file.h"

namespace stepcast {
namespace {

double us(Seconds time) { return time.si() * 1e6; }

// Builds a table; a table without rows is not written.
struct ProfileTable {
    std::string end, text;
    long rows = 0;
    ProfileTable(std::string name, const std::string& header)
        : end(std::move(name)), text(header + "\n") {}
    void add(const std::string& row) {
        text += row + "\n";
        ++rows;
    }
};

struct OperatorTables {
    ProfileTable gemms{"gemms",
                       "gpu,m,n,k,groups,dtype,layout,timer,time_us,calls,total_us,call,rank"};
    ProfileTable batches{"batches", "gpu,batch,m,n,k,dtype,timer,time_us,calls,total_us,call,rank"};
    ProfileTable attention{
        "attention",
        "op,batch,heads,kv_heads,head_dim,seq_q,seq_k,causal,window,gpu,dtype,kernel,"
        "pass,implementation,time_us,calls,rank"};
    ProfileTable passes{"passes", "gpu,kind,bytes,dtype,timer,time_us,calls,total_us,call,rank"};
    long unknown = 0;
};

void add_operators(const Profile& p, OperatorTables& to) {
    const std::string gpu = csv_field(p.device.name);
    for (const OperatorTimes& t : operator_times(p)) {
        const std::string op = csv_field(t.call.op),
                          times = fmt::format("{:.6g},{},{:.6g},{},{}", us(t.typical), t.calls,
                                              us(t.total), op, p.rank);
        if (!t.call.known)
            to.unknown += t.kernels;
        else if (const auto* g = std::get_if<Gemm>(&t.call.work); g && g->batch == 1)
            to.gemms.add(fmt::format(
                "{},{},{},{},1,{},{},kernel,{}", gpu, g->m, g->n, g->k, to_string(g->dtype),
                t.call.layout_known ? layout_names[as_index(g->layout)] : "", times));
        else if (g)
            to.batches.add(fmt::format("{},{},{},{},{},{},kernel,{}", gpu, g->batch, g->m, g->n,
                                       g->k, to_string(g->dtype), times));
        else if (const auto* a = std::get_if<Attention>(&t.call.work))
            to.attention.add(
                fmt::format("attention,{},{},{},{},{},{},{},0,{},{},{},{},profile,{:.6g},{},{}",
                            a->batch, a->heads, t.call.kv_heads, a->head_dim, a->seq_q, a->seq_k,
                            a->causal ? 1 : 0, gpu, to_string(a->dtype), op,
                            a->backward ? "backward" : "forward", us(t.typical), t.calls, p.rank));
        else
            to.passes.add(fmt::format("{},{},{:.0f},{},kernel,{}", gpu, t.call.kind,
                                      std::get<MemoryPass>(t.call.work).read.si(),
                                      csv_field(t.call.dtype), times));
    }
}

// How many ranks take part in a call: two in a send and its receive, else the whole group.
int taking_part(const CollectiveCall& call) {
    return collective_kind(call) == "send_recv" && call.ranks > 0 ? 2 : call.ranks;
}

// Ranks of a node, 0 = unknown.
int node_size(const Profile& p, int world, int said) {
    if (said > 0) return world % said == 0 ? world / said : 0;
    return p.node_devices > 1 ? p.node_devices : 0;
}

int nodes_of_pair(const CollectiveCall& call, const std::vector<int>& members, int world,
                  int per_node) {
    const bool all = members.empty() && call.ranks == world;
    if (call.source < 0 || per_node == 0 || (members.empty() && !all)) return 0;
    const auto node = [&](int i) { return (all ? i : members.at(as_index(i))) / per_node; };
    return node(call.source) == node(call.target) ? 1 : 2;
}

// How many nodes the ranks of a call are on, 0 = unknown. Ranks fill one node after the other. A
// node has the job's ranks divided by `said` nodes, or the GPUs that the trace lists (unless only
// one, which may be all that the process could see). `said` also counts for groups with unknown
// members.
int nodes_of(const Profile& p, const CollectiveCall& call, int said) {
    const int ranks = taking_part(call), world = std::max(p.ranks, call.ranks);
    const int per_node = node_size(p, world, said);
    if (said == 1 || (said == 0 && world <= per_node)) return 1;
    const std::vector<int> members = members_of(call);
    if (ranks < call.ranks) return nodes_of_pair(call, members, world, per_node);
    if (per_node > 0 && !members.empty()) {
        std::set<int> nodes;
        for (const int rank : members) nodes.insert(rank / per_node);
        return as_int(nodes.size());
    }
    if (said > 0) return said;
    return per_node > 0 && ranks == world && world % per_node == 0 ? world / per_node : 0;
}

// Calls of collectives that are no row of the table.
struct LeftOut {
    long unsized = 0, placeless = 0;
};

void note_collectives(const std::vector<Profile>& ranks, const LeftOut& left, int rows,
                      std::vector<std::string>& notes) {
    if (left.unsized > 0)
        add_line(notes,
                 "{} calls of collectives without operation, group or size: not in the table",
                 left.unsized);
    if (left.placeless > 0)
        add_line(notes,
                 "{} calls of collectives of groups whose nodes are not stated: not in the "
                 "table (use --nodes N)",
                 left.placeless);
    if (const long untold = meetings_of(ranks).untold; untold > 0)
        add_line(
            notes,
            "{} kernels of collectives cannot be matched as one call on several ranks (groups not "
            "named, or other numbers of calls): their durations hold waiting for peers",
            untold);
    if (ranks.size() == 1 && rows > 0)
        notes.push_back(
            "one rank only: durations of collectives hold waiting for peers, their least is an "
            "upper bound of the transfer");
}

void add_collectives(const std::vector<Profile>& ranks, int nodes_said, ProfileTable& table,
                     std::vector<std::string>& notes) {
    const Profile& first = ranks.front();
    LeftOut left;
    for (const CollectiveTimes& t : collective_times(ranks)) {
        const std::string kind = collective_kind(t.call);
        // An operator names no group: take the group of all ranks.
        CollectiveCall call = t.call;
        if (call.ranks == 0 && !call.from_kernel) call.ranks = first.ranks;
        const Bytes bytes = collective_bytes(call);
        if (kind.empty() || call.ranks < 2 || !(bytes > Bytes(0))) {
            left.unsized += t.calls;
            continue;
        }
        const int nodes = nodes_of(first, call, nodes_said), joined = taking_part(call);
        if (nodes == 0 || joined % nodes != 0) {
            left.placeless += t.calls;
            continue;
        }
        table.add(fmt::format("{},{},{},{:.0f},{:.6g},{},{},{},{:.6g},{},{}", kind, joined, nodes,
                              bytes.si(), us(t.ranks_seen > 1 ? t.transfer : t.least),
                              csv_field(first.device.name), t.calls, t.ranks_seen, us(t.waiting),
                              t.ranks_seen < joined ? "upper" : "measured",
                              csv_field(t.call.group)));
    }
    note_collectives(ranks, left, table.rows, notes);
}

// Counts passes of compiled graphs, which are Triton's kernels, and passes that run operator by
// operator, which are PyTorch's own.
void add_passes_by_maker(const Profile& p, ProfileTable& launches) {
    long calls[2] = {0, 0};
    Seconds times[2];
    for (const DeviceSpan& s : p.spans) {
        if (s.kind != SpanKind::compute) continue;
        if (s.sized >= 0 && std::holds_alternative<Gemm>(p.operators[as_index(s.sized)].work))
            continue;
        const std::string_view name = p.names[s.name];
        const bool compiled = name.starts_with("triton_");
        if (!compiled && !has(name, "at::native")) continue;
        ++calls[compiled ? 1 : 0];
        times[compiled ? 1 : 0] += seconds(s.finish - s.start);
    }
    for (const int i : {0, 1})
        if (calls[i] > 0)
            launches.add(fmt::format("\"{}\",{},{:.6g},{}",
                                     i == 0 ? single_passes : compiled_passes, calls[i],
                                     us(times[i] / real(calls[i])), p.rank));
}

void add_launches(const Profile& p, ProfileTable& launches) {
    std::vector<double> each;
    for (const Seconds s : p.launches) each.push_back(s.si());
    const double call = each.empty() ? 0 : median(each) * 1e6;
    if (!each.empty())
        launches.add(fmt::format("{},{},{:.6g},{}", launch_kind, each.size(), call, p.rank));
    if (p.layer.calls > 0) {
        launches.add(fmt::format("host time of a layer ({}),{},{:.6g},{}", csv_field(p.layer.name),
                                 p.layer.calls, us(p.layer.host), p.rank));
        const auto forward = std::ranges::count_if(p.spans, [](const DeviceSpan& s) {
            return s.phase == ProfilePhase::forward && s.launched != not_launched;
        });
        const double own = us(p.layer.host) - call * real(forward) / real(p.layer.calls);
        if (own > 0)
            launches.add(fmt::format("{},{},{:.6g},{}", layer_kind, p.layer.calls, own, p.rank));
    }
    add_passes_by_maker(p, launches);
}

constexpr double ns = 1e-9;

// The part of the profile between two times, for the sums of one step. No span may be longer than
// `longest`.
Profile between(const Profile& p, Seconds from, Seconds to, std::int64_t longest) {
    Profile part;
    const std::int64_t first = std::llround(from.si() / ns), last = std::llround(to.si() / ns);
    auto at = std::ranges::lower_bound(p.spans, first - longest, {}, &DeviceSpan::start);
    for (; at != p.spans.end() && at->start < last; ++at) {
        DeviceSpan span = *at;
        span.start = std::max(span.start, first) - first;
        span.finish = std::min(span.finish, last) - first;
        if (span.finish > span.start) part.spans.push_back(span);
    }
    return part;
}

}  // namespace

std::vector<Sample> profile_samples(const Profile& p, const Sample& like) {
    std::vector<Sample> samples;
    const auto add = [&](const char* phase, int step, double value, const char* unit) {
        samples.push_back(sample_of(like, {phase, p.rank, step}, value, unit));
    };
    const bool phases = tells_phases(p);
    const auto add_parts = [&](const Profile& part, int step, Seconds whole) {
        const DeviceTimes t = device_times(part);
        const auto phase = [&](ProfilePhase of) {
            return t.phases.contains(of) ? t.phases.at(of) : Seconds(0);
        };
        if (phases) {
            add("forward", step, phase(ProfilePhase::forward).si(), "s");
            add("backward", step,
                (phase(ProfilePhase::backward) + phase(ProfilePhase::recompute)).si(), "s");
            add("optimizer", step, phase(ProfilePhase::optimizer).si(), "s");
        }
        add("gradient_sync", step, t.exposed.si(), "s");
        add("busy", step, t.busy.si(), "s");
        add("idle", step, std::max(0.0, (whole - t.busy).si()), "s");
    };
    std::int64_t longest = 0;
    for (const DeviceSpan& span : p.spans) longest = std::max(longest, span.finish - span.start);
    for (const std::size_t i : indices_of(p.steps)) {
        const ProfiledStep& step = p.steps[i];
        const Seconds length = length_of_step(p, i);
        const int number = as_int(number_of_step(p, i));
        add("step", number, length.si(), "s");
        add_parts(between(p, step.start, step.start + length, longest), number, length);
    }
    const DeviceTimes whole = device_times(p);
    if (p.steps.empty()) {
        add("window", 0, whole.span.si(), "s");
        add_parts(p, 0, whole.span);
    }
    if (p.peak_reserved > Bytes(0)) add("peak_reserved", -1, p.peak_reserved.si(), "B");
    if (p.peak_allocated > Bytes(0)) add("peak_allocated", -1, p.peak_allocated.si(), "B");
    return samples;
}

std::vector<PlannedFile> profile_tables(const std::vector<Profile>& ranks, const std::string& out,
                                        int nodes, std::vector<std::string>& notes) {
    OperatorTables operators;
    ProfileTable collectives(
        "collectives", "op,ranks,nodes,bytes,time_us,gpu,calls,ranks_seen,waiting_us,bound,group");
    ProfileTable launches("launches", "kind,calls,time_us_per_call,rank");
    for (const Profile& p : ranks) {
        add_operators(p, operators);
        add_launches(p, launches);
    }
    add_collectives(ranks, nodes, collectives, notes);
    if (operators.unknown > 0)
        add_line(notes, "{} kernels of products whose type is not recorded: not in the table",
                 operators.unknown);
    const std::string stem = out.ends_with(".csv") ? out.substr(0, out.size() - 4) : out;
    std::vector<PlannedFile> files;
    for (const ProfileTable* t : {&operators.gemms, &operators.batches, &operators.attention,
                                  &operators.passes, &collectives, &launches})
        if (t->rows > 0) {
            files.push_back({stem + "." + t->end + ".csv", t->text});
            add_line(notes, "{}.{}.csv: {} rows", stem, t->end, t->rows);
        }
    return files;
}

}  // namespace stepcast
