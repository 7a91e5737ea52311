// Describes log lines by templates: literal texts with fields between them, matched from left to
// right in one pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "import/logs/log_lines.h"
#include "model/input/keyed.h"

namespace stepcast {

// Values are divided by powers of ten where possible: this keeps the log's digits, multiplication
// by the inverse would not.
struct LogUnit {
    std::string_view name, si;
    double scale, divisor;
    bool inverse = false;  // a rate, whose inverse is the value
};

// For example "iteration {#}/{} | {}elapsed time per iteration (ms): {step:ms} |". The first
// literal may stand anywhere in the line. {name:unit} is a number in that unit (us, ms, s, steps/s,
// B, KB, MB, GB, KiB, MiB, GiB, 1, %, tokens/s, or clock: 1:02:03 or 1h 2m 3s), {#} the step's
// number, {} any text before the next literal. Blanks between literals and fields are ignored;
// numbers may have thousands commas. {name:unit*} reads a suffix of thousands behind the number
// (5.88K, 1.2M, 3B). Without the star a number with a suffix, or with another unit, is refused: no
// number is cut short.
class LinePattern {
public:
    explicit LinePattern(const std::string& text);  // throws ConfigError without position

    struct Field {
        std::string name;  // "#" = the step's number
        std::string unit;  // unit of the value that match() gives: "s", "B", "1", "tokens/s"
    };
    [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }

    // The values of the fields in SI units, in order; false if the line does not match. Throws
    // ConfigError if a number would be cut short.
    bool match(std::string_view line, std::vector<double>& values) const;
    [[nodiscard]] bool counts_steps() const;

private:
    struct Token {
        std::string literal;  // or
        int field = -1;       // index, -1 = none
        bool gap = false;
        const LogUnit* unit = nullptr;
        bool suffixed = false;  // an SI suffix may follow
    };
    static double suffix_scale(const Token& field, LineCursor& cursor);
    std::string cut_text(const Token& field, double value, std::string_view rest) const;
    bool read_value(const Token& field, LineCursor& cursor, double& value, std::string& cut) const;
    void add_field(const std::string& text);

    std::vector<Token> tokens_;
    std::vector<Field> fields_;
};

// A pattern file (TOML). `lines`: patterns, of which at least one has {#}. `recognise`: texts of
// which one stands in a line of such logs, one that `lines` match. `note`: said of each run.
// `ignore`: a line with one of these texts belongs to no step (validation). `system`, `model`,
// `ranks`: of the runs. `tokens`: of a step for each GPU, to compute a step time from tokens/s.
// `mean_since_last`: values are means over the steps since the line before.
struct LogPattern {
    std::string path;
    KEY(std::string, name, {}, "of the format");
    KEY(std::string, note, {}, "said of each run: what its values are and are not");
    KEY(std::string, system, {}, "whose runs they are; the name, where nothing is said");
    KEY(std::string, model, {}, "that was trained");
    KEY(int, ranks, 0, "of the run", 0, upto::ranks);
    KEY(double, tokens, 0, "of a step for each GPU, which turn tokens/s into a step time",
        atleast::any);
    KEY(bool, mean_since_last, false, "values are means over the steps since the line before");
    std::vector<LinePattern> lines;
    std::vector<std::string> ignore = {}, recognise = {};
};
LogPattern read_log_pattern(const std::string& path);  // throws ConfigError with file:line:column

std::vector<std::string> shipped_patterns();  // paths, of import/patterns/*.toml

}  // namespace stepcast
