#include "model/moe/program.h"

#include <algorithm>

namespace stepcast {

TaskId Program::append(std::string_view name, Phase phase, Op op, std::span<const Place> places) {
    std::vector<TaskId> after;
    for (const Place& place : places) {
        const auto& last = last_[static_cast<std::size_t>(place.rank())];
        if (last && std::find(after.begin(), after.end(), *last) == after.end()) after.push_back(*last);
    }
    const bool on_host = places.front().lane() == Lane::host;
    const TaskId task = graph_.add(name, phase, std::move(op), places, after, on_host ? 0.0F : 1.0F);
    for (const Place& place : places) last_[static_cast<std::size_t>(place.rank())] = task;
    return task;
}

TaskId Program::on_rank(int rank, std::string_view name, Phase phase, Op op, Lane lane) {
    const Place place(rank, lane);
    return append(name, phase, std::move(op), {&place, 1});
}

TaskId Program::on_all(std::string_view name, Phase phase, Op op, Lane lane) {
    std::vector<Place> places;
    for (int r = 0; r < rank_count(); ++r) places.emplace_back(r, lane);
    return append(name, phase, std::move(op), places);
}

void Program::on_each(std::string_view name, Phase phase, const Op& op, Lane lane) {
    for (int r = 0; r < rank_count(); ++r) on_rank(r, name, phase, op, lane);
}

void Program::ahead(int rank, std::string_view name, Phase phase, const HostWork& work) {
    const Place place(rank, Lane::host);
    graph_.add(name, phase, work, {&place, 1}, {}, 0);
}

void Program::ahead(std::string_view name, Phase phase, const HostWork& work) {
    for (int r = 0; r < rank_count(); ++r) ahead(r, name, phase, work);
}

void Program::synchronise(Phase phase) { on_each("synchronise", phase, HostWork{HostWork::Kind::read, 0}, Lane::host); }

void Program::follow_all(TaskId task) { std::fill(last_.begin(), last_.end(), task); }

}  // namespace stepcast
