// Dialect moe-steps: one printing rank, nothing but STEP lines between [Benchmark] and [Summary].
#include "calibrate/moe_log.h"

namespace stepcast {
namespace {

LineUse judge(std::string_view text) {
    LineCursor cursor(text);
    if (cursor.at_end()) return LineUse::skipped;
    if (cursor.word("cuda:") && cursor.integer() && cursor.at_end()) return LineUse::skipped;
    return LineUse::unknown;
}

}  // namespace

ImportResult import_moe_steps(const std::string& path) {
    MoeLog log(path);
    ImportResult result{path, LogFormat::moe_steps, {}, {}};
    long last = 0;
    read_lines(path, [&](const LogLine& line) {
        std::optional<LineUse> use = log.take(line, "");
        if (!use) use = judge(line.text);
        count(result.lines, *use);
        last = line.number;
        return true;
    });
    log.finish(last);
    result.runs = std::move(log.runs());
    return result;
}

}  // namespace stepcast
