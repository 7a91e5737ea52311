#include "import/profiles/profiled_steps.h"

#include <algorithm>
#include <optional>

#include "import/profiles/trace_records.h"
#include "measured/medians.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

// share of a step: if the device falls behind the host by less, steps are timed on the host
constexpr double most_lag = 0.1;

// The device work that one step launched.
struct StepWork {
    std::optional<std::int64_t> end;
    std::int64_t waited = 0;  // from the launch of its first computing kernel to the kernel's start
    bool computes = false;
};

// `bounds`: the starts of the steps and the end of the last one.
std::vector<StepWork> work_of_steps(const Profile& p, const std::vector<std::int64_t>& bounds) {
    std::vector<StepWork> all(bounds.size() - 1);
    for (const DeviceSpan& s : p.spans) {  // by start
        if (s.launched < bounds.front() || s.launched >= bounds.back()) continue;
        StepWork& work =
            all[as_index(std::ranges::upper_bound(bounds, s.launched) - bounds.begin() - 1)];
        if (!work.computes && s.kind == SpanKind::compute) {
            work.waited = s.start - s.launched;
            work.computes = true;
        }
        work.end = std::max(work.end.value_or(s.finish), s.finish);
    }
    return all;
}

bool worked(const StepWork& w) { return w.end.has_value(); }

// By how many nanoseconds the device fell behind the host from the first step to the last; 0 where
// this is small, or where the device was as far behind at the end of the first step already: a
// queue that stays as long lets host and device take the same time for a step. Without any known
// launch the queue may have been long from the beginning, so less than a step counts as 0.
double lag_of(const Profile& p, const std::vector<std::int64_t>& bounds,
              const std::vector<StepWork>& work) {
    const double step = (real(bounds.back()) - real(bounds.front())) / real(work.size());
    const auto first = std::ranges::find_if(work, worked);
    double behind = 0;
    if (first == work.end()) {
        std::int64_t end = p.spans.front().finish;
        for (const DeviceSpan& s : p.spans) {
            if (s.launched != not_launched) return 0;  // the steps launched nothing
            end = std::max(end, s.finish);
        }
        behind = real(end) - real(bounds.back());
        return behind > step ? behind : 0;
    }
    std::size_t last = work.size() - 1;
    while (!worked(work[last])) --last;
    const auto at_end_of = [&](std::size_t i) { return real(*work[i].end) - real(bounds[i + 1]); };
    behind = at_end_of(last) - real(first->waited);
    const auto index = as_index(first - work.begin());
    const double grown = index == last ? behind : at_end_of(last) - at_end_of(index);
    return std::min(behind, grown) > most_lag * step ? behind : 0;
}

// Whether the host went ahead in the first step, and only there: its mark is then shorter than the
// step's work on the device.
bool first_runs_ahead(const std::vector<HostSpan>& marks, const std::vector<StepWork>& work,
                      const std::vector<std::int64_t>& bounds) {
    if (marks.size() < 3 || !worked(work.front())) return false;
    std::vector<double> later;
    for (std::size_t i = 1; i < marks.size(); ++i) later.push_back(real(marks[i].length.ns()));
    const double step = median(later),
                 ahead = real(*work.front().end - bounds[1] - work.front().waited);
    return ahead > most_lag * step && real(marks.front().length.ns()) < (1 - most_lag) * step;
}

// Adds steps with the host's times. A short last mark that launches nothing, while others do, marks
// the end and is no step.
void add_host_steps(const TraceRecords& records, std::vector<HostSpan> marks,
                    const std::vector<StepWork>& work, const std::vector<std::int64_t>& bounds,
                    Profile& p) {
    const std::int64_t origin = marks.front().start - bounds.front();
    const auto is_short = [&] {
        return marks.back().length.ns() < (marks.back().start - marks.front().start) /
                                              static_cast<std::int64_t>(marks.size()) / 2;
    };
    if (!worked(work.back()) && std::ranges::any_of(work, worked) && is_short()) marks.pop_back();
    int skipped = 0;
    if (first_runs_ahead(marks, work, bounds)) {
        marks.erase(marks.begin());
        skipped = 1;
        p.notes.emplace_back(
            "the host ran ahead of the device in the first step, and stayed as far ahead: the "
            "first is left out");
    }
    for (const HostSpan& m : marks)
        p.steps.push_back(
            {records.names[m.name], seconds(m.start - origin), seconds(m.length.ns()), skipped});
}

// Adds steps from the end of the previous step's work to the end of their own. The first step is
// skipped, as its beginning is unknown.
void add_device_steps(const TraceRecords& records, const std::vector<HostSpan>& marks,
                      const std::vector<StepWork>& work, Profile& p) {
    p.steps_on_device = true;
    std::optional<std::int64_t> before;
    int skipped = 0;
    for (const std::size_t i : indices_of(marks)) {
        if (before && worked(work[i]) && *work[i].end > *before)
            p.steps.push_back({records.names[marks[i].name], seconds(*before),
                               seconds(*work[i].end - *before), skipped});
        else
            ++skipped;
        if (worked(work[i])) before = std::max(before.value_or(*work[i].end), *work[i].end);
    }
    if (p.shortened && !p.steps.empty()) p.steps.pop_back();  // the end of its work was dropped
}

// The number that ends the mark's name; -1 without.
long number_of(const std::string& name) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    return as_number<long>(std::string_view(name).substr(digits)).value_or(-1);
}

// Marks whose numbers follow one another. Where these jump or begin again, as they do behind
// another window of the profiler and in a loop of evaluation, the piece that lasts longest.
std::vector<HostSpan> in_one_piece(const TraceRecords& records,
                                   const std::vector<HostSpan>& marks) {
    std::vector<HostSpan> piece, longest;
    const auto keep_longest = [&] {
        const auto lasts = [](const auto& all) { return all.back().finish() - all.front().start; };
        if (longest.empty() || lasts(piece) > lasts(longest)) longest = piece;
    };
    for (const HostSpan& mark : marks) {
        if (!piece.empty() && number_of(records.names[mark.name]) !=
                                  number_of(records.names[piece.back().name]) + 1) {
            keep_longest();
            piece.clear();
        }
        piece.push_back(mark);
    }
    keep_longest();
    return longest;
}

}  // namespace

std::vector<HostSpan> outermost(std::vector<HostSpan> spans) {
    std::ranges::stable_sort(spans, {},
                             [](const HostSpan& s) { return std::pair(s.start, -s.length.ns()); });
    std::vector<HostSpan> kept;
    for (const HostSpan& s : spans)
        if (kept.empty() || s.start >= kept.back().finish() ||
            s.finish() > kept.back().finish() + rounding)
            kept.push_back(s);
    return kept;
}

void add_steps(const TraceRecords& records, std::int64_t origin, Profile& p) {
    const std::vector<HostSpan> outer = outermost(records.steps);
    if (outer.empty()) return;
    if (outer.size() < records.steps.size())
        add_line(p.notes, "{} marks of steps lie inside others: the outer ones are the steps",
                 records.steps.size() - outer.size());
    const std::vector<HostSpan> marks = in_one_piece(records, outer);
    if (marks.size() < outer.size())
        add_line(
            p.notes,
            "the numbers of {} marks of steps jump or begin again: the steps are {} to {}, the "
            "longest piece of numbers that follow one another",
            outer.size(), records.names[marks.front().name], records.names[marks.back().name]);
    std::vector<std::int64_t> bounds;
    for (const HostSpan& m : marks) bounds.push_back(m.start - origin);
    bounds.push_back(std::max(bounds.back(), marks.back().finish() - origin));
    const std::vector<StepWork> work = work_of_steps(p, bounds);
    const double lag = lag_of(p, bounds, work);
    if (lag == 0) return add_host_steps(records, marks, work, bounds, p);
    add_device_steps(records, marks, work, p);
    add_line(
        p.notes, "the host ran ahead of the device, by {:.3f} ms at the end of its last step: {}",
        lag * 1e-6,
        p.steps.empty() ? "no step can be timed, the whole window is one piece"
                        : "steps are timed on the device, from the end of one's work to that of "
                          "the next; the first "
                          "has no beginning and is left out");
}

}  // namespace stepcast
