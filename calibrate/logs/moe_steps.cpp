// Dialect moe-steps: one printing rank, nothing but STEP lines between the start of a run and [Summary]. Runs of whole
// models print their launch and their modules before.
#include "calibrate/logs/moe_log.h"

namespace stepcast {
namespace {

LineUse judge(const LogLine& line, MoeLog& log) {
    LineCursor cursor(line.text);
    if (cursor.at_end()) return LineUse::skipped;
    if (cursor.word("cuda:") && cursor.integer() && cursor.at_end()) return LineUse::skipped;
    if (cursor.word("world_size")) {
        const std::optional<int> ranks = cursor.integer();
        if (!ranks || *ranks < 1 || !cursor.at_end()) return LineUse::unknown;
        log.see_ranks(*ranks);
        return LineUse::used;
    }
    for (const char* launch : {"local_rank", "world_rank"})
        if (cursor.word(launch)) return cursor.integer() && cursor.at_end() ? LineUse::skipped : LineUse::unknown;
    if (line.text == "ddp" || line.text.ends_with(" init success")) return LineUse::skipped;
    const bool module = cursor.word("(") || cursor.word(")") || cursor.word("DistributedDataParallel(");
    return module && !log.run_open() ? LineUse::skipped : LineUse::unknown;
}

struct StepsLog {
    MoeLog log;
    LineUse take(const LogLine& line) {
        const std::optional<LineUse> use = log.take(line, "");
        return use ? *use : judge(line, log);
    }
    void finish(long lines) { log.finish(lines); }
};

}  // namespace

LineCounts import_moe_steps(const std::string& path, const TakeRun& take) {
    StepsLog log{MoeLog(path, take)};
    return read_whole(path, log);
}

}  // namespace stepcast
