#include "reports/list_tables.h"

#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "model/base/joined.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
#include "reports/table.h"
#include "sim/sweep/worker.h"

namespace stepcast {
std::string keys_table(const std::vector<KeyDoc>& keys, const std::string& word) {
    const std::string wanted = lower_case(word);
    std::string text;
    for (const KeyDoc& key : keys) {
        const std::string line =
            fmt::format("{:<40} {:<10} {:<12} {}{}", key.key, key.kind, key.default_value,
                        key.meaning, key.values.empty() ? "" : ": " + key.values);
        if (!has(lower_case(line), wanted)) continue;
        text += wrapped(line, 64);
        const bool named = key.key == word || key.key.ends_with("." + word);
        if (named && !key.affects.empty())
            text += wrapped(fmt::format("{:64}affects: {}", "", key.affects), 64);
    }
    return text;
}

std::string entries_with(const std::string& table, const std::string& word) {
    const std::string wanted = lower_case(word);
    std::string text, heading, entry;
    bool whole = false;  // the heading has the word: take all entries below it
    const auto has_it = [&](const std::string& lines) { return has(lower_case(lines), wanted); };
    const auto close = [&] {
        if (!entry.empty() && (whole || has_it(entry))) text += std::exchange(heading, "") + entry;
        entry.clear();
    };
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
        const auto indent = line.find_first_not_of(' ');
        if (indent <= 2) close();
        if (indent == 0)
            heading = line + "\n", whole = has_it(heading);
        else
            entry += line + "\n";
    }
    close();
    return text;
}

std::string presets_table(const PresetList& presets) {
    std::string text = "experiments\n";
    const auto add = [&](const std::string& name, const std::string& what) {
        text += wrapped(fmt::format("  {:<28} {}", name, what), 31);
    };
    for (const Experiment& e : presets.experiments) {
        const Workload& w = e.workload;
        std::string what =
            fmt::format("{} ranks, {} x {} {}x{} {}", rank_count(e.cluster), w.layers,
                        to_string(w.kind), w.hidden, w.ffn, to_string(w.dtype));
        if (w.moe.experts > 0)
            what += fmt::format(", {} experts top-{}, {}", w.moe.experts, w.moe.top_k,
                                to_string(e.parallelism.moe_system));
        add(e.name, what + ", on " + e.cluster.name);
    }
    text += "workloads\n";
    for (const std::string& name : presets.workloads) text += "  " + name + "\n";
    text += "families (workload.family)\n";
    for (const std::string& name : presets.families) text += "  " + name + "\n";
    text += "frameworks (--framework)\n";
    const auto fitted = [](const auto& fit) {
        return fmt::format("fitted {} to {} samples", fit.date, fit.samples);
    };
    for (const Framework& f : presets.frameworks)
        add(f.name, f.about + (f.fitted ? "; " + fitted(*f.fitted) : ""));
    text += "clusters\n";
    for (const Cluster& c : presets.clusters)
        add(c.name, fmt::format("{} x {}, {}", rank_count(c), c.gpu.name,
                                c.fitted ? fitted(*c.fitted) : "uncalibrated"));
    text += "clusters known by their datasheet only\n" +
            wrapped(fmt::format("  {}", joined(presets.nameplates, ", ")), 2);
    return text;
}

}  // namespace stepcast
