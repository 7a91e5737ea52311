#include "reports/explain_tables.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reports/text.h"

namespace stepcast {
namespace {

constexpr std::size_t shown_parameters = 12, shown_uncertainties = 5;

double share_of(Seconds time, Seconds whole) { return whole > Seconds(0) ? time / whole : 0; }

std::string kind_text(const PathShare& s) {
    if (s.kind == "issue") return "host: issuing kernels";
    std::string text = s.kind == "host_work" ? "host: its own work" : s.kind;
    std::ranges::replace(text, '_', ' ');
    if (s.link != LinkLevel::none) text += fmt::format(", {}", link_text(s.link));
    return text;
}

std::string path_lines(const Explanation& x) {
    std::string text = fmt::format("{:<44} {:>12} {:>8} {:>10}\n", "critical path", "time", "share", "tasks");
    for (const PathShare& s : x.path)
        text += fmt::format("  {:<42} {:>12} {:>8} {:>10}\n", kind_text(s), time_text(s.time),
                            percent_text(share_of(s.time, x.step)), count_text(static_cast<double>(s.tasks)));
    return text;
}

std::string link_lines(const Explanation& x) {
    std::array<Seconds, 4> by_link{};
    Seconds host, device;
    for (const PathShare& s : x.path)
        (s.on_host ? host : s.link == LinkLevel::none ? device : by_link[static_cast<std::size_t>(s.link)]) += s.time;
    std::string text = fmt::format("{:<44} {:>12} {:>8}\n", "critical path by resource", "time", "share");
    const auto add = [&](std::string_view name, Seconds time) {
        if (time > Seconds(0))
            text += fmt::format("  {:<42} {:>12} {:>8}\n", name, time_text(time), percent_text(share_of(time, x.step)));
    };
    add("devices", device);
    for (const LinkLevel level : {LinkLevel::node, LinkLevel::leaf, LinkLevel::spine})
        add(fmt::format("links {}", link_text(level)), by_link[static_cast<std::size_t>(level)]);
    add("hosts", host);
    return text;
}

std::string rank_text(const IdleTime& i) {
    return i.stands_for > 1 ? fmt::format("{} (of {} alike)", i.rank, i.stands_for) : fmt::format("{}", i.rank);
}

std::string idle_lines(const Explanation& x) {
    std::string text = fmt::format("{:<24} {:>20} {:>9} {:>20}\n", "where ranks idle",
                                   "slowest " + rank_text(x.slowest), "", "median " + rank_text(x.median));
    const auto add = [&](const char* name, Seconds slowest, Seconds median) {
        text += fmt::format("  {:<22} {:>20} {:>9} {:>20} {:>9}\n", name, time_text(slowest),
                            percent_text(share_of(slowest, x.step)), time_text(median),
                            percent_text(share_of(median, x.step)));
    };
    add("pipeline bubble", x.slowest.bubble, x.median.bubble);
    add("straggler", x.slowest.straggler, x.median.straggler);
    add("exposed communication", x.slowest.exposed_communication, x.median.exposed_communication);
    add("host", x.slowest.host, x.median.host);
    add("idle in all", x.step - x.slowest.busy, x.step - x.median.busy);
    return text;
}

std::string change_text(Seconds change, Seconds step) {
    return change == Seconds(0) ? "0" : fmt::format("{:+.2f} %", 100 * share_of(change, step));
}

std::string elasticity_lines(const Explanation& x) {
    std::string text = fmt::format("{:<40} {:>18} {:>16} {:>18}\n", fmt::format("{:.0f} % more of", 100 * x.change),
                                   "now", "changes the step", "along the path");
    for (std::size_t i = 0; i < std::min(shown_parameters, x.elasticities.size()); ++i) {
        const Elasticity& e = x.elasticities[i];
        text += fmt::format("  {:<38} {:>18} {:>16} {:>18}\n", e.key, e.value, change_text(e.simulated, x.step),
                            change_text(e.along_path, x.step));
    }
    const std::size_t hidden = x.elasticities.size() - std::min(shown_parameters, x.elasticities.size());
    return text + fmt::format("  {} more change it by less, {} not at all\n", hidden, x.without_effect.size());
}

std::string source_text(Uncertainty::Source source) {
    switch (source) {
        case Uncertainty::Source::fitted: return "fitted";
        case Uncertainty::Source::prior: return "not determined";
        case Uncertainty::Source::assumed: return "never fitted";
    }
    return "";
}

std::string uncertainty_lines(const Explanation& x) {
    if (x.uncertainties.empty()) return "measure this next: nothing, no parameter of this step is uncertain\n";
    std::string text = fmt::format("measure this next: {}\n", x.uncertainties.front().key);
    text += fmt::format("{:<40} {:>14} {:>16} {:>8} {:>14} {:>10}\n", "uncertain", "now", "known", "+-", "step +-",
                        "variance");
    for (std::size_t i = 0; i < std::min(shown_uncertainties, x.uncertainties.size()); ++i) {
        const Uncertainty& u = x.uncertainties[i];
        text += fmt::format("  {:<38} {:>14} {:>16} {:>8} {:>14} {:>10}\n", u.key, u.value, source_text(u.source),
                            percent_text(u.relative_error), time_text(u.widening), percent_text(u.share));
    }
    return text + fmt::format("  all {} together: step +- {} ({}), one standard deviation\n", x.uncertainties.size(),
                              time_text(x.uncertainty), percent_text(share_of(x.uncertainty, x.step)));
}

}  // namespace

std::string_view link_text(LinkLevel level) {
    switch (level) {
        case LinkLevel::none: return "no link";
        case LinkLevel::node: return "inside nodes";
        case LinkLevel::leaf: return "between nodes";
        case LinkLevel::spine: return "across the spine";
    }
    return "?";
}

std::string explanation_table(const Explanation& x) {
    return fmt::format("why: one step of {} without noise\n\n", time_text(x.step)) + path_lines(x) + "\n" +
           link_lines(x) + "\n" + idle_lines(x) + "\n" + elasticity_lines(x) + "\n" + uncertainty_lines(x);
}

}  // namespace stepcast
