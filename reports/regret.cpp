#include "reports/compare.h"

#include <algorithm>

namespace stepcast {
namespace {

struct Mapping {
    const Parallelism* parallelism;
    Seconds predicted, measured;  // sums over its rows
    int rows = 0;
};

struct Job {
    const Case* first;
    std::vector<Mapping> mappings;
};


bool same_job(const Case& a, const Case& b) {
    const Experiment &x = a.experiment, &y = b.experiment;
    return a.source == b.source && x.workload == y.workload && x.cluster.gpu.name == y.cluster.gpu.name &&
           rank_count(x.cluster) == rank_count(y.cluster) && sequences_of_step(x.parallelism) == sequences_of_step(y.parallelism);
}

void add(Job& job, const Comparison& c) {
    const Parallelism& p = c.what.experiment.parallelism;
    auto at = std::ranges::find_if(job.mappings, [&](const Mapping& m) { return *m.parallelism == p; });
    if (at == job.mappings.end()) at = job.mappings.insert(at, {&p, Seconds(0), Seconds(0), 0});
    at->predicted += c.forecast->step.p50;
    at->measured += c.what.measured_step;
    ++at->rows;
}

Decision decision_of(const Job& job) {
    const Experiment& e = job.first->experiment;
    Decision d{
        job.first->source, e.workload.name, rank_count(e.cluster), static_cast<int>(job.mappings.size()), {}, {}};
    const auto predicted = [](const Mapping& m) { return m.predicted / m.rows; };
    const auto measured = [](const Mapping& m) { return m.measured / m.rows; };
    d.best = measured(*std::ranges::min_element(job.mappings, {}, measured));
    const Seconds least = predicted(*std::ranges::min_element(job.mappings, {}, predicted));
    for (const Mapping& m : job.mappings)
        if (predicted(m) == least) d.chosen = std::max(d.chosen, measured(m));
    return d;
}

}  // namespace

double regret(const Decision& decision) { return decision.chosen / decision.best - 1; }

std::vector<Decision> decisions_of(const std::vector<Comparison>& comparisons) {
    std::vector<Job> jobs;
    for (const Comparison& c : comparisons) {
        if (!c.forecast) continue;
        auto at = std::ranges::find_if(jobs, [&](const Job& job) { return same_job(*job.first, c.what); });
        if (at == jobs.end()) at = jobs.insert(at, {&c.what, {}});
        add(*at, c);
    }
    std::vector<Decision> decisions;
    for (const Job& job : jobs)
        if (job.mappings.size() > 1) decisions.push_back(decision_of(job));
    return decisions;
}

}  // namespace stepcast
