#include "reports/table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/files/plain_text.h"
#include "reports/text.h"

namespace stepcast {
namespace {

std::string without_trailing_blanks(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
}

std::string padded(const std::string& text, const Column& column, std::size_t width) {
    return column.is_text ? fmt::format("{:<{}}", text, width) : fmt::format("{:>{}}", text, width);
}

std::string text_line(const Table& table, const std::vector<std::string>& cells, std::size_t indent) {
    std::string line(indent, ' ');
    line += fmt::format("{:<{}}", cells.front(), table.columns.front().width - indent);
    for (std::size_t c = 1; c < cells.size(); ++c) line += " " + padded(cells[c], table.columns[c], table.columns[c].width);
    return without_trailing_blanks(line);
}

std::string attribute_of(const Cell& cell) {
    return cell.value && std::isfinite(*cell.value) ? fmt::format(" data-v=\"{:.9g}\"", *cell.value) : "";
}

}  // namespace

Cell time_cell(Seconds time) { return {time_text(time), time.si()}; }
Cell bytes_cell(Bytes bytes) { return {bytes_text(bytes), bytes.si()}; }
Cell percent_cell(double fraction) { return {percent_text(fraction), fraction}; }
Cell signed_percent_cell(double fraction) { return {signed_percent_text(fraction), fraction}; }
Cell count_cell(double count) { return {count_text(count), count}; }

std::string text_of(const Table& table) {
    std::vector<std::string> line;
    for (const Column& column : table.columns) line.push_back(column.name);
    std::string text = text_line(table, line, 0);
    for (const auto& row : table.rows) {
        line.clear();
        for (const Cell& cell : row) line.push_back(cell.text);
        text += text_line(table, line, 2);
    }
    return text + (table.below.empty() ? "" : "  " + table.below + "\n");
}

std::string aligned_text(const Table& table) {
    std::vector<std::size_t> width;
    for (const Column& column : table.columns) width.push_back(column.name.size());
    for (const auto& row : table.rows)
        for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].text.size());
    const auto line = [&](auto&& text_of_column) {
        std::string text;
        for (std::size_t c = 0; c < width.size(); ++c) text += (c == 0 ? "" : "  ") + padded(text_of_column(c), table.columns[c], width[c]);
        return text + "\n";
    };
    std::string text = line([&](std::size_t c) { return table.columns[c].name; });
    for (const auto& row : table.rows) text += line([&](std::size_t c) { return row[c].text; });
    return text;
}

std::string markdown_of(const Table& table) {
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

std::string html_of(const Table& table) {
    std::string text = std::string("<div class=\"table") + (table.columns.size() <= 3 ? " narrow" : "") + "\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                       html_text(table.name.empty() ? table.columns.front().name : table.name) + "\"><table>\n";
    if (!table.name.empty()) text += "<caption>" + html_text(table.name) + "</caption>\n";
    text += "<thead><tr>";
    for (const Column& column : table.columns)
        text += fmt::format("<th scope=\"col\"{}>{}</th>", column.is_text ? "" : " class=\"n\"", html_text(column.name));
    text += "</tr></thead>\n<tbody>\n";
    for (const auto& row : table.rows) {
        text += "<tr>";
        for (std::size_t c = 0; c < row.size(); ++c)
            text += fmt::format("<td{}{}>{}</td>", table.columns[c].is_text ? "" : " class=\"n\"", attribute_of(row[c]),
                                html_text(row[c].text));
        text += "</tr>\n";
    }
    text += "</tbody></table></div>\n";
    return text + (table.below.empty() ? "" : "<p class=\"note\">" + html_text(table.below) + "</p>\n");
}

std::string html_text(std::string_view text) {
    std::string escaped;
    for (const char c : plain_text(text)) {
        switch (c) {
            case '&': escaped += "&amp;"; break;
            case '<': escaped += "&lt;"; break;
            case '>': escaped += "&gt;"; break;
            case '"': escaped += "&quot;"; break;
            case '\'': escaped += "&#39;"; break;
            case '`': escaped += "&#96;"; break;
            default: escaped += c;
        }
    }
    return escaped;
}

}  // namespace stepcast
