// A step as a picture shows it: what some ranks do when, and the memory of one of them. Plain values that sim/gantt.h fills
// and reports draw.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/units.h"

namespace stepcast {

// exchange: a rank's devices exchange and do nothing else; idle: they do nothing.
enum class GanttKind { forward, backward, input_backward, weight_backward, optimizer, other, exchange, idle };

struct GanttBox {
    GanttKind kind = GanttKind::other;
    Seconds start, finish;
    int micro_batch = -1;  // from 0; -1: of none
    friend bool operator==(const GanttBox&, const GanttBox&) = default;
};
struct GanttRow {
    std::string label;             // "rank 0, first"
    std::vector<GanttBox> boxes;   // idle time and collectives lie over slots that they interrupt
    friend bool operator==(const GanttRow&, const GanttRow&) = default;
};
struct Gantt {
    std::string title;  // experiment, or what sets it apart from others next to it
    Seconds step;
    std::vector<GanttRow> rows;
    std::string memory_label;                       // "memory of rank 0"; "" = not known over time
    std::vector<std::pair<Seconds, Bytes>> memory;  // from then on, until the next
    Bytes capacity;                                 // of the device; 0 = not known
    friend bool operator==(const Gantt&, const Gantt&) = default;
};

}  // namespace stepcast
