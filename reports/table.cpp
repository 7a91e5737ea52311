#include "reports/table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/plain_text.h"

namespace stepcast {
namespace {

std::string attribute_of(const Cell& cell) {
    return cell.value && std::isfinite(*cell.value) ? fmt::format(" data-v=\"{:.9g}\"", *cell.value)
                                                    : "";
}

// The table with all its times in one unit.
Table in_one_unit(Table table) {
    std::vector<Seconds> times;
    for (const auto& row : table.rows)
        for (const Cell& cell : row) append(times, cell.times);
    const UnitOfTime unit = unit_of(times);
    for (auto& row : table.rows)
        for (Cell& cell : row) {
            if (cell.times.size() == 1) cell.text = time_text(cell.times.front(), unit);
            if (cell.times.size() == 2)
                cell.text = range_text({{}, cell.times.front(), {}, cell.times.back()}, unit);
        }
    return table;
}

}  // namespace

Cell time_cell(Seconds time) { return {time_text(time), time.si(), {time}}; }
Cell range_cell(const Interval& i) {
    return has_spread(i) ? Cell{range_text(i), (i.p90 - i.p10).si(), {i.p10, i.p90}} : Cell{"-", 0};
}
Cell bytes_cell(Bytes bytes) { return {bytes_text(bytes), bytes.si()}; }
Cell percent_cell(double fraction) { return {percent_text(fraction), fraction}; }
Cell signed_percent_cell(double fraction) { return {signed_percent_text(fraction), fraction}; }
Cell count_cell(double count) { return {count_text(count), count}; }
Cell error_cell(Seconds predicted, Seconds measured) {
    return measured > Seconds(0) ? signed_percent_cell(predicted / measured - 1) : Cell{"-"};
}

std::string text_of(const Table& raw) {
    const Table table = in_one_unit(raw);
    const bool is_wide = table.columns.size() > 1;
    std::vector<std::vector<Cell>> lines{{}};
    std::vector<std::size_t> width;
    for (const Column& column : table.columns) {
        lines.front().push_back({column.name});
        width.push_back(column.width);
    }
    append(lines, table.rows);
    for (const auto& line : lines)
        for (std::size_t c = 0; c < line.size() && (line.size() > 1 || !is_wide); ++c)
            width[c] = std::max(width[c], line[c].text.size());
    std::string text;
    for (const auto& line : lines) {
        std::string cells;
        for (const std::size_t c : indices_of(line))
            cells += (c == 0 ? "" : "  ") + (table.columns[c].is_text
                                                 ? fmt::format("{:<{}}", line[c].text, width[c])
                                                 : fmt::format("{:>{}}", line[c].text, width[c]));
        text += cells.erase(cells.find_last_not_of(' ') + 1) + "\n";
    }
    return text + (table.below.empty() ? "" : wrapped(table.below));
}

std::string markdown_of(const Table& raw) {
    const Table table = in_one_unit(raw);
    std::string text = "|", rule = "|";
    for (const Column& column : table.columns) {
        text += " " + markdown_text(column.name) + " |";
        rule += column.is_text ? "---|" : "---:|";
    }
    text += "\n" + rule + "\n";
    for (const auto& row : table.rows) {
        text += "|";
        for (const Cell& cell : row) text += " " + markdown_text(cell.text) + " |";
        text += "\n";
    }
    return text + (table.below.empty() ? "" : "\n" + markdown_text(table.below) + "\n");
}

std::string html_of(const Table& raw) {
    const Table table = in_one_unit(raw);
    std::string text = std::string("<div class=\"table") +
                       (table.columns.size() <= 3   ? " narrow"
                        : table.columns.size() > 12 ? " wide"
                                                    : "") +
                       "\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                       html_text(table.name.empty() ? table.columns.front().name : table.name) +
                       "\"><table>\n";
    if (!table.name.empty()) text += "<caption>" + html_text(table.name) + "</caption>\n";
    text += "<thead><tr>";
    for (const Column& column : table.columns)
        text += fmt::format("<th scope=\"col\"{}>{}</th>", column.is_text ? "" : " class=\"n\"",
                            html_text(column.name));
    text += "</tr></thead>\n<tbody>\n";
    for (const auto& row : table.rows) {
        text += "<tr>";
        for (const std::size_t c : indices_of(row))
            text += fmt::format("<td{}{}>{}</td>", table.columns[c].is_text ? "" : " class=\"n\"",
                                attribute_of(row[c]), html_text(row[c].text));
        text += "</tr>\n";
    }
    text += "</tbody></table></div>\n";
    return text +
           (table.below.empty() ? "" : "<p class=\"note\">" + html_text(table.below) + "</p>\n");
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
    std::string out;
    for (std::size_t at; (at = text.find(from)) != std::string_view::npos;
         text.remove_prefix(at + from.size()))
        out.append(text.substr(0, at)).append(to);
    return out.append(text);
}

std::string escaped(std::string_view text,
                    std::initializer_list<std::pair<char, std::string_view>> by) {
    std::string out;
    for (const char& c : text) {
        const auto found = first_with(by, c, [](const auto& one) { return one.first; });
        out += found ? found->second : std::string_view(&c, 1);
    }
    return out;
}

std::string shell_word(const std::string& word) {
    constexpr std::string_view harmless =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,+@%-";
    if (!word.empty() && word.find_first_not_of(harmless) == std::string::npos) return word;
    return "'" + replaced(word, "'", "'\\''") + "'";
}

std::string html_text(std::string_view text) {
    return escaped(plain_text(text), {{'&', "&amp;"},
                                      {'<', "&lt;"},
                                      {'>', "&gt;"},
                                      {'"', "&quot;"},
                                      {'\'', "&#39;"},
                                      {'`', "&#96;"}});
}

// ---- figures as text

namespace {

// Decimals for four digits, so that columns align. Below a twentieth of a microsecond the value
// shows as 0 instead of rounding errors.
int decimals_of(double milliseconds) {
    const double size = std::abs(milliseconds);
    return size >= 100 ? 1 : size >= 1 || size < 5e-5 ? 2 : 4;
}

}  // namespace

UnitOfTime unit_of(const std::vector<Seconds>& times) {
    const bool long_one = std::ranges::any_of(
        times, [](Seconds t) { return std::isfinite(t.si()) && t >= Seconds(10); });
    return long_one ? UnitOfTime::seconds : UnitOfTime::milliseconds;
}

std::string time_text(Seconds time, UnitOfTime unit) {
    if (!std::isfinite(time.si())) return "n/a";
    const double size = std::abs(time.si());
    if (unit == UnitOfTime::seconds)
        return fmt::format("{:.{}f} s", time.si(),
                           size >= 10                 ? 2
                           : size >= 0.1 || size == 0 ? 3
                                                      : 4);
    const double milliseconds = time.si() * 1e3;
    return fmt::format("{:.{}f} ms", milliseconds, decimals_of(milliseconds));
}

std::string time_text(Seconds time) { return time_text(time, unit_of({time})); }

std::string range_text(const Interval& interval, UnitOfTime unit) {
    const std::string low = time_text(interval.p10, unit), high = time_text(interval.p90, unit);
    return (low == "n/a" ? low : low.substr(0, low.find(' '))) + " .. " + high;
}

std::string range_text(const Interval& interval) {
    return has_spread(interval) ? range_text(interval, unit_of({interval.p10, interval.p90})) : "-";
}

std::string bytes_text(Bytes bytes) {
    constexpr double kib = 1024, mib = kib * 1024, gib = mib * 1024;
    if (!std::isfinite(bytes.si())) return "n/a";
    const double size = std::abs(bytes.si());
    if (size >= gib) return fmt::format("{:.2f} GiB", bytes.si() / gib);
    if (size >= mib) return fmt::format("{:.1f} MiB", bytes.si() / mib);
    if (size >= kib) return fmt::format("{:.1f} KiB", bytes.si() / kib);
    return fmt::format("{:.0f} B", bytes.si());
}

std::string joules_text(Joules energy) {
    double size = energy.si();
    if (!std::isfinite(size)) return "n/a";
    for (const char* unit : {"J", "kJ", "MJ", "GJ"}) {
        if (std::abs(size) < 999.5)
            return fmt::format(
                "{} {}", std::abs(size) < 0.995 ? fmt::format("{:.3g}", size) : figure(size), unit);
        size /= 1e3;
    }
    return fmt::format("{} TJ", count_text(size));
}

std::string percent_text(double fraction) {
    return std::isfinite(fraction) ? fmt::format("{:.1f} %", fraction * 100) : "n/a";
}

std::string chance_text(double chance) {
    constexpr double least = 1e-3;
    if (chance < least) return "below 0.1 %";
    if (chance > 1 - least) return "above 99.9 %";
    return fmt::format("{:.2g} %", 100 * chance);
}

std::string signed_percent_text(double fraction) {
    return std::isfinite(fraction) ? fmt::format("{:+.1f} %", fraction * 100) : "n/a";
}

std::string count_text(double count) {
    if (!std::isfinite(count)) return "n/a";
    std::string digits = fmt::format("{:.0f}", count);
    const std::size_t first = digits.starts_with('-') ? 1 : 0;
    for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
    return digits;
}

std::string figure(double value) {
    return fmt::format("{:.{}f}", value, value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

std::string wrapped(std::string_view text, std::size_t indent) {
    std::string lines;
    std::size_t room = table_width;
    while (text.size() > room) {
        std::size_t cut = text.rfind(' ', room);
        while (cut != std::string_view::npos && cut > 0 && text.substr(cut).starts_with(" %"))
            cut = text.rfind(' ', cut - 1);
        // a word wider than the table stays whole
        if (cut == std::string_view::npos || cut == 0) cut = text.find(' ', room);
        if (cut == std::string_view::npos) break;
        lines.append(text.substr(0, cut)).append("\n").append(indent, ' ');
        text.remove_prefix(cut + 1);
        room = table_width - indent;
    }
    return lines.append(text).append("\n");
}

std::string markdown_text(std::string_view text) {
    return escaped(plain_text(text), {{'\\', "\\\\"},
                                      {'`', "\\`"},
                                      {'*', "\\*"},
                                      {'<', "\\<"},
                                      {'>', "\\>"},
                                      {'[', "\\["},
                                      {']', "\\]"},
                                      {'|', "\\|"}});
}

std::string kind_words(std::string_view kind) {
    if (kind == "memory_pass") return "memory-bound kernel";
    std::string text(kind);
    std::ranges::replace(text, '_', ' ');
    return text;
}

std::vector<StepPart> parts_of(const Breakdown& b) {
    return {{"compute", "compute", b.compute},
            {"memory-bound kernels", "memory", b.memory},
            {"exposed communication", "exposed_communication", b.exposed_communication},
            {"pipeline bubble", "bubble", b.bubble},
            {"imbalance", "imbalance", b.imbalance},
            {"host", "host", b.host}};
}

std::vector<StepPart> phases_of(const StepTimes& t) {
    return {{"forward", "forward", t.forward},
            {"backward", "backward", t.backward},
            {"gradient sync", "gradient_sync", t.gradient_sync},
            {"optimizer", "optimizer", t.optimizer}};
}

}  // namespace stepcast
