// Which of a log's progress bars, as tqdm draws them, is the training's.
#pragma once

#include <string_view>
#include <vector>

#include "import/logs/line_pattern.h"

namespace stepcast {

// Others have a title, stand below another bar, or end elsewhere; or they begin again before that
// of the training is at its end, as an evaluation of as many steps does. Such lines are held until
// something tells whose they are: a line of the training behind them, one of the evaluation, or the
// bar of the training that goes on.
class TrainingBar {
public:
    struct Line {
        double end;  // where the bar ends
        int step;
        long number;  // of the line
        const LinePattern* pattern;
        std::vector<double> values;  // as the pattern reads them
    };
    enum class Use { other, held, step, restart };  // restart: settle(), then take it again
    Use take(const Line& line, bool other);

    std::vector<Line> settle();  // lines of the training are behind those held: its steps
    void deny();                 // what is said now is of an evaluation
    void end_run();
    std::vector<Line> rest();                                // at the log's end
    [[nodiscard]] long dropped() const { return dropped_; }  // lines held that were of no training

    // "Map: 43%|": not the number of a rank ("[rank0]:", "0:").
    static bool has_title(std::string_view text);

private:
    using Bar = std::vector<Line>;
    static bool is_full(const Bar& bar) { return bar.back().step >= bar.back().end; }
    void drop(Bar& bar);

    std::vector<Bar> held_;  // by their ends, in the order of their begin
    double end_ = 0;         // of the training's; 0 = not known
    double last_ = 0;        // of the last line held
    int step_ = -1;          // of the training's
    bool other_ = false;     // the last bar was another's
    bool over_ = false;      // the training's was full, and one began again
    bool ended_ = false;     // a run before has ended
    long dropped_ = 0;
};

}  // namespace stepcast
