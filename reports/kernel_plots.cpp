#include "reports/kernel_plots.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>

#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "reports/compare.h"
#include "reports/error_plots.h"
#include "reports/kernel_tables.h"
#include "reports/plot_frame.h"

namespace stepcast {
namespace {

using Rows = std::vector<KernelComparison>;
using Series = std::map<std::string, Rows>;

constexpr std::size_t most_series = colours.size();  // one per colour

// The series to plot: the largest if there are more than colours, and a text with their numbers of
// rows.
struct Shown {
    Series series;
    std::string rows;
};
Shown shown_of(const Rows& rows, const std::function<std::string(const KernelComparison&)>& name) {
    Series series;
    for (const KernelComparison& k : rows) series[name(k)].push_back(k);
    std::size_t left_out = 0;
    while (series.size() > most_series) {
        const auto smallest =
            std::ranges::min_element(series, {}, [](const auto& one) { return one.second.size(); });
        left_out += smallest->second.size();
        series.erase(smallest);
    }
    return {series, left_out == 0 ? fmt::format("{} rows", rows.size())
                                  : fmt::format("only {} of {} rows (more series than colours)",
                                                rows.size() - left_out, rows.size())};
}

std::string label_with_error(const std::string& name, const Rows& rows) {
    const KernelSummary s = kernel_summary_of(rows);
    return fmt::format("{}: {} rows, median error {}", name, s.rows, percent_text(s.median_ape));
}

std::string clusters_of(const Rows& rows) {
    std::set<std::string> names;
    for (const KernelComparison& k : rows) names.insert(k.cluster);
    return names.empty()
               ? ""
               : fmt::format("cluster{} {}", names.size() == 1 ? "" : "s", joined(names, ", "));
}

PlotRange range_of(const Rows& rows, const std::function<double(const KernelComparison&)>& value) {
    PlotRange range;
    for (const KernelComparison& k : rows) range.add(value(k));
    return {range.low / 1.3, range.high * 1.3};
}

void plot_errors(const Rows& rows, const std::string& title, const std::string& path) {
    const auto [series, count] = shown_of(rows, &KernelComparison::kind);
    const auto us = [](const KernelComparison& k) { return 1e6 * k.measured.si(); };
    const auto wide = [](const KernelComparison& k) {
        return k.predicted > 2 * k.measured || k.measured > 2 * k.predicted;
    };
    const double edge = std::any_of(rows.begin(), rows.end(), wide) ? 4 : 2;
    const auto ratio = [edge](const KernelComparison& k) {
        return std::clamp(k.predicted / k.measured, 1 / edge, edge);
    };
    Plot plot{.parts = {"'+' using 1:(0.9):(1.1) with filledcurves lc '#efefef'",
                        "'+' using 1:(0.95):(1.05) with filledcurves lc '#dadada'",
                        "1 with lines lc '#333333' lw 0.8"},
              .labels = {"within 10 %", "within 5 %", ""}};
    for (std::size_t i = 0; const auto& [kind, members] : series) {
        for (const bool fitted : {true, false})
            plot.add_block(fmt::format("{}{}", fitted ? "fitted" : "other", i), members,
                           [&](const KernelComparison& k) {
                               return (k.evidence == Evidence::fitted) == fitted
                                          ? Row{us(k), ratio(k)}
                                          : Row{};
                           });
        plot.add_parts(i++,
                       {"$fitted{0} using 1:2 with points pt 6 ps 0.5 lw 0.6 lc '{1}'",
                        "$other{0} using 1:2 with points pt 7 ps 0.6 lc '{1}'",
                        "NaN with points pt 7 ps 1.2 lc '{1}'"},
                       label_with_error(kind, members));
    }
    plot.add("NaN with points pt 6 ps 1.2 lc '#555555'", "fitted on");
    plot.add("NaN with points pt 7 ps 1.2 lc '#555555'", "not fitted on");
    const KernelSummary all = kernel_summary_of(rows);
    const PlotRange axis = range_of(rows, us);
    plot.draw(
        title + ": error of kernels and collectives, " + count,
        fmt::format(
            "median error {}, mean {}, bias {}, worst {}; errors beyond the picture at its edge",
            percent_text(all.median_ape), percent_text(all.mape), signed_percent_text(all.bias),
            signed_percent_text(all.worst)),
        clusters_of(rows),
        fmt::format("set xlabel 'measured time [us]'\nset ylabel 'predicted / measured' offset "
                    "0.5\nset logscale xy\nset xrange "
                    "[{}:{}]\nset yrange [{}:{}]\nset ytics "
                    "(0.25,0.5,0.7,0.8,0.9,1,1.1,1.25,1.5,2,3,4)\nset samples 100\n{}",
                    axis.low, axis.high, 1 / edge, edge, log_ticks(axis, "x")),
        path);
}

// Rates are relative to the device's peak for the dtype, intensities to the point where memory and
// arithmetic take equally long: so all devices have the same roof.
bool plot_roofline(const Rows& all, const std::string& title, const std::string& path) {
    const Rows rows = where(all, [](const KernelComparison& k) {
        return k.work > Flops(0) && k.bytes > Bytes(0) && k.peak > FlopsPerSecond(0);
    });
    if (rows.empty()) return false;
    const auto intensity = [](const KernelComparison& k) {
        return (k.work / k.peak) / (k.bytes / k.bandwidth);
    };
    const auto rate = [](const KernelComparison& k) { return (k.work / k.peak) / k.measured; };
    const auto [series, count] = shown_of(
        rows, [](const auto& k) { return fmt::format("{}, {} {}", k.device, k.kind, k.dtype); });
    const PlotRange across = range_of(rows, intensity);
    PlotRange up = range_of(rows, rate);
    up.high = std::max(1.3, up.high);
    Plot plot{.parts = {"(x < 1 ? x : 1) with lines lc '#333333' lw 1.6"},
              .labels = {"datasheet roof"}};
    plot.add_series(
        "roof", series,
        [&](const auto& k) {
            return Row{intensity(k), rate(k)};
        },
        {"$roof{0} using 1:2 with points pt {2} ps 0.6 lc '{1}'"},
        [](const std::string& name, const Rows& members) {
            return fmt::format("{}: {} rows", name, members.size());
        });
    plot.draw(title + ": roofline, " + count,
              "points: measured; work over the datasheet's peak of the dtype, operands read and "
              "written once",
              clusters_of(rows),
              fmt::format("set xlabel 'arithmetic intensity, relative to the ridge'\nset "
                          "ylabel 'share of the "
                          "datasheet peak' offset 0.5\nset logscale xy\nset xrange [{}:{}]\nset "
                          "yrange [{}:{}]\nset samples 400\n{}{}",
                          across.low, across.high, up.low, up.high, log_ticks(across, "x"),
                          log_ticks(up, "y")),
              path);
    return true;
}

void plot_bus_bandwidth(const Rows& rows, const std::string& device, const std::string& title,
                        const std::string& path) {
    auto [series, count] =
        shown_of(rows, [](const auto& k) { return fmt::format("{}, {} ranks", k.kind, k.ranks); });
    const auto rate = [](const KernelComparison& k, Seconds time) {
        return 1e-9 * k.bus_factor * k.bytes.si() / time.si();
    };
    Plot plot;
    PlotRange up;
    for (auto& [name, members] : series)
        std::ranges::stable_sort(members, {}, &KernelComparison::bytes);
    const auto line = [&](const KernelComparison& k) {
        for (const Seconds time : {k.measured, k.predicted}) up.add(rate(k, time));
        return Row{k.bytes.si(), rate(k, k.measured), rate(k, k.predicted)};
    };
    plot.add_series("bus", series, line,
                    {"$bus{0} using 1:3 smooth unique with lines lw 1.6 lc '{1}'",
                     "$bus{0} using 1:2 with points pt {2} ps 1.1 lc '{1}'"},
                    [](const std::string& name, const Rows& members) {
                        return fmt::format("{}: median error {}", name,
                                           percent_text(kernel_summary_of(members).median_ape));
                    });
    const PlotRange across = range_of(rows, [](const KernelComparison& k) { return k.bytes.si(); });
    plot.draw(fmt::format("{}: collectives of {}, {}", title, device, count),
              "points: measured, lines: predicted; bus bandwidth as nccl-tests counts it",
              clusters_of(rows),
              fmt::format(
                  "set xlabel 'payload [bytes]'\nset ylabel 'bus bandwidth [GB/s]' offset 0.5\nset "
                  "logscale xy\nset logscale x 2\nset "
                  "xrange [{}:{}]\nset yrange [{}:{}]\n{}{}",
                  across.low, across.high, up.low / 1.3, up.high * 1.3,
                  log_ticks({up.low / 1.3, up.high * 1.3}, "y"), binary_ticks(across, "B")),
              path);
}

// The classes of kernels that readers distinguish.
std::string class_of(const KernelComparison& k) {
    const auto begins = [&](const char* text) { return k.kind.starts_with(text); };
    if (begins("dispatch") || begins("combine")) return "dispatch and combine of experts";
    if (k.ranks > 0) return "collectives";
    if (begins("mla")) return "MLA";
    if (k.kind.ends_with("attention")) return "attention";
    if (begins("moe_layer")) return "expert layers";
    if (begins("cast")) return "casts";
    return "GEMM " + k.dtype;
}

// Points on the diagonal match the law.
void plot_times(const Rows& rows, const std::string& title, const std::string& path) {
    const auto [series, count] = shown_of(rows, class_of);
    const auto us = [](Seconds time) { return 1e6 * time.si(); };
    const PlotRange across = range_of(rows, [&](const auto&k) { return us(k.predicted); }),
                    up = range_of(rows, [&](const auto&k) { return us(k.measured); });
    const PlotRange both{std::min(across.low, up.low), std::max(across.high, up.high)};
    Plot plot{.parts = {"'+' using 1:(0.9*$1):(1.1*$1) with filledcurves lc '#dadada'",
                        "x with lines lc '#333333' lw 1.2"},
              .labels = {"within 10 %", "the cost models"}};
    plot.add_series(
        "times", series,
        [&](const auto& k) {
            return Row{us(k.predicted), us(k.measured)};
        },
        {"$times{0} using 1:2 with points pt {2} ps 0.5 lc '{1}'"}, label_with_error);
    plot.draw(title + ": " + count, "points: measured; the line: as predicted", clusters_of(rows),
              fmt::format("set xlabel 'predicted time [us]'\nset ylabel 'measured time [us]' "
                          "offset 0.5\nset logscale xy\n"
                          "set xrange [{}:{}]\nset yrange [{}:{}]\nset samples 200\n{}",
                          both.low, both.high, both.low, both.high, log_ticks(both, "xy")),
              path);
}

std::string without_maker(const std::string& device) {
    return device.starts_with("NVIDIA ") || device.starts_with("Intel ")
               ? device.substr(device.find(' ') + 1)
               : device;
}

// Median errors of rows that were not fitted, one column per device.
bool plot_devices(const Rows& all, const std::string& title, const std::string& path) {
    std::map<std::string, Series> by_class;
    std::vector<std::string> devices;
    std::size_t count = 0;
    for (const KernelComparison& k : all) {
        if (k.evidence == Evidence::fitted) continue;
        by_class[class_of(k)][k.device].push_back(k);
        add_once(devices, k.device);
        ++count;
    }
    if (devices.size() < 2 || by_class.size() > most_series) return false;
    constexpr double most = 40;
    Plot plot{.parts = {"10 with lines lc '#999999' lw 0.8 dt 2",
                        "5 with lines lc '#cccccc' lw 0.8 dt 2"},
              .labels = {"", ""}};
    std::size_t i = 0;
    for (const auto& [name, of_devices] : by_class) {
        std::vector<Row>& rows =
            plot.data.emplace_back(DataBlock{fmt::format("class{}", i), {}}).rows;
        const double place = (real(i) + 0.5) / real(by_class.size());
        for (const std::size_t d : indices_of(devices))
            if (const auto found = value_in(of_devices, devices[d]))
                rows.push_back({real(d) + 0.7 * (place - 0.5),
                                std::min(most, 100 * kernel_summary_of(*found).median_ape)});
        plot.add(fmt::format("$class{} using 1:2 with points pt {} ps 1.6 lc '{}'", i,
                             point_type(i), colour(i)),
                 name);
        ++i;
    }
    plot.draw(
        title + fmt::format(": {} devices, {} rows", devices.size(), count),
        fmt::format(
            "median error by kind, of rows that were not fitted; beyond {:.0f} % at the edge",
            most),
        "",
        bar_labels(devices, "") + fmt::format("set xtics ({})\nset xrange [-0.6:{}]\nset yrange "
                                              "[0:{}]\nset ylabel 'median error [%]'\n",
                                              named_ticks(devices, without_maker),
                                              real(devices.size()) - 0.4, most + 1),
        path);
    return true;
}

std::string file_name(const std::string& device) {
    std::string name;
    for (const char c : device) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return name;
}

}  // namespace

std::vector<std::string> plot_kernels(const KernelComparisons& kernels, const std::string& title,
                                      const std::string& folder) {
    std::vector<std::string> names{"kernel_error.png", "kernel_times.png"};
    plot_errors(kernels.rows, title, folder + "/kernel_error");
    plot_times(kernels.rows, title, folder + "/kernel_times");
    if (plot_devices(kernels.rows, title, folder + "/devices")) names.emplace_back("devices.png");
    if (plot_roofline(kernels.rows, title, folder + "/roofline"))
        names.emplace_back("roofline.png");
    std::map<std::string, Rows> collectives;
    for (const KernelComparison& k : kernels.rows)
        if (k.ranks > 0) collectives[k.device].push_back(k);
    for (const auto& [device, rows] : collectives) {
        const std::string name = "bus_bandwidth_" + file_name(device);
        plot_bus_bandwidth(rows, device, title, folder + "/" + name);
        names.push_back(name + ".png");
    }
    return names;
}

}  // namespace stepcast
