#include "import/logs/training_bar.h"

#include <algorithm>

#include "model/base/characters.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"

namespace stepcast {

TrainingBar::Use TrainingBar::take(const Line& line, bool other) {
    // full, it does not begin again before the line that ends a run
    over_ = over_ || (end_ > 0 && line.end == end_ && line.step < step_ && step_ >= end_);
    other_ = other || (end_ > 0 && (line.end != end_ || over_));
    if (other_) return Use::other;
    Bar* bar = first_where(held_, [&](const Bar& one) { return one.back().end == line.end; });
    const bool again = bar && line.step < bar->back().step;
    if (end_ > 0 && line.step >= step_ && (!bar || again)) {
        if (bar) drop(*bar);
        step_ = line.step;
        return Use::step;
    }
    if (again && !is_full(*bar)) return Use::restart;
    if (again) drop(*bar);
    if (!bar || again) bar = &held_.emplace_back();
    bar->push_back(line);
    last_ = line.end;
    return Use::held;
}

// The first that had not come to its end; an evaluation before the training has.
std::vector<TrainingBar::Line> TrainingBar::settle() {
    if (held_.empty()) return {};
    auto found = std::ranges::find_if_not(held_, is_full);
    if (found == held_.end()) --found;
    Bar steps = std::move(*found);
    held_.erase(found);
    while (!held_.empty()) drop(held_.back());
    end_ = steps.back().end;
    step_ = steps.back().step;
    return steps;
}

void TrainingBar::deny() {
    if (other_ || held_.empty()) return;
    drop(*first_where(held_, [&](const Bar& one) { return one.back().end == last_; }));
    other_ = true;
}

void TrainingBar::end_run() {
    end_ = 0;
    step_ = -1;
    over_ = false;
    ended_ = true;
}

std::vector<TrainingBar::Line> TrainingBar::rest() {
    const bool evaluation = end_ > 0 ? !held_.empty() && is_full(held_.front()) : ended_;
    while (evaluation && !held_.empty()) drop(held_.back());
    return settle();
}

void TrainingBar::drop(Bar& bar) {
    dropped_ += static_cast<long>(bar.size());
    held_.erase(held_.begin() + (&bar - held_.data()));
}

bool TrainingBar::has_title(std::string_view text) {
    auto before = text.substr(0, text.find("%|"));
    while (!before.empty() && (before.back() == ' ' || is_digit(before.back())))
        before.remove_suffix(1);
    if (before.size() < 2 || before.back() != ':') return false;
    before = trimmed(before.substr(0, before.size() - 1));
    return before.back() != ']' && !std::ranges::all_of(before, is_digit);
}

}  // namespace stepcast
