#include "reports/tables.h"

#include <fmt/format.h>

#include "reports/text.h"

namespace stepcast {
namespace {

// No longer than a line of a table, cut between words; `more` stands whole behind it.
std::string one_line(const std::string& text, const std::string& more) {
    if (text.size() + more.size() <= table_width) return text + more + "\n";
    const std::size_t room = table_width - more.size() - 3;
    return text.substr(0, text.rfind(' ', room)) + " .." + more + "\n";
}

constexpr std::string_view extrapolated = "extrapolated: ", kept = ": not determined by the data, kept its prior";

}  // namespace

std::string every_note(const std::vector<std::string>& notes) {
    std::string text;
    for (const std::string& note : notes) text += wrapped("note: " + note);
    return text;
}

std::string brief_notes(const std::vector<std::string>& notes) {
    std::string beyond;
    std::size_t priors = 0;
    std::vector<std::string> others;
    for (const std::string& note : notes) {
        if (note.starts_with(extrapolated))
            beyond += (beyond.empty() ? "extrapolated: " : ", ") +
                      note.substr(extrapolated.size(), note.find(' ', extrapolated.size()) - extrapolated.size());
        else if (note.find(kept) != std::string::npos)
            ++priors;
        else
            others.push_back(note);
    }
    std::string known = beyond;
    if (priors > 0) known += fmt::format("{}{} parameters kept their prior", known.empty() ? "" : "; ", priors);
    const bool all_said = beyond.empty() && priors == 0 && others.size() == 1;
    const std::string why = all_said ? "" : " (--explain says more)";
    if (others.empty()) return known.empty() ? "" : one_line("note: " + known, why);
    const std::string more = others.size() > 1 ? fmt::format(" (+{}: --explain)", others.size() - 1) : why;
    return (known.empty() ? "" : one_line("note: " + known, "")) + one_line("note: " + others.front(), more);
}

}  // namespace stepcast
