// The event engine kept for many runs over one graph: what follows from the graph alone is found once, and nothing is
// allocated again.
#pragma once

#include <memory>

#include "sim/engine/simulate.h"

namespace stepcast {

class EventEngine {
public:
    explicit EventEngine(const TaskGraph& graph);  // which must outlive it
    ~EventEngine();
    EventEngine(const EventEngine&) = delete;
    EventEngine& operator=(const EventEngine&) = delete;

    // As run_with_contention().
    void run(const Costs& costs, const Contention& contention, Timeline& timeline);

private:
    class Run;
    std::unique_ptr<Run> run_;
};

}  // namespace stepcast
