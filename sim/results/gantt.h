// A step as a picture that sim/gantt.h fills and reports draw: what some ranks do at which time,
// and the memory of one of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/base/units.h"

namespace stepcast {

// exchange: the devices of a rank communicate and compute nothing; idle: they do neither.
enum class GanttKind {
    forward,
    backward,
    input_backward,
    weight_backward,
    optimizer,
    other,
    exchange,
    idle
};

struct GanttBox {
    GanttKind kind = GanttKind::other;
    Seconds start, finish;
    int micro_batch = -1;  // from 0; -1: belongs to none
    friend bool operator==(const GanttBox&, const GanttBox&) = default;
};
struct GanttRow {
    std::string label;  // "rank 0, first"
    // idle time and collectives are drawn over the slots that they interrupt
    std::vector<GanttBox> boxes;
    friend bool operator==(const GanttRow&, const GanttRow&) = default;
};
struct Gantt {
    std::string title;  // the experiment, or what distinguishes it from pictures beside it
    Seconds step;
    std::vector<GanttRow> rows;
    // "memory of rank 0"; "" = no memory over time is known
    std::string memory_label;
    std::vector<std::pair<Seconds, Bytes>> memory;  // each value holds until the next time
    Bytes capacity;                                 // of the device; 0 = not known
    friend bool operator==(const Gantt&, const Gantt&) = default;
};

}  // namespace stepcast
