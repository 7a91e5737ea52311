#include "exec/shared_collectives.h"

#include <algorithm>
#include <functional>

#include "exec/footprint.h"

namespace stepcast {

namespace {

void copy(std::span<const float> from, std::span<float> to) { std::copy(from.begin(), from.end(), to.begin()); }

// to[i] = sum over participants of what each shows at offset + i.
void sum_shown(const RankGroup& group, std::size_t offset, std::span<float> to) {
    copy(group.shown(0).subspan(offset, to.size()), to);
    for (std::size_t source = 1; source < group.size(); ++source) {
        const auto values = group.shown(source).subspan(offset, to.size());
        std::ranges::transform(to, values, to.begin(), std::plus{});
    }
}

}  // namespace

// Each sums its part of everybody's input, then fetches the other parts.
void all_reduce(RankGroup& group, std::size_t index, std::span<float> input, std::span<float> output) {
    group.publish(index, input);
    group.meet(index);
    const Part own = part_of(output.size(), index, group.size());
    sum_shown(group, own.begin, output.subspan(own.begin, own.end - own.begin));
    group.meet(index);
    group.publish(index, output);
    group.meet(index);
    for (std::size_t source = 0; source < group.size(); ++source) {
        if (source == index) continue;
        const Part part = part_of(output.size(), source, group.size());
        copy(group.shown(source).subspan(part.begin, part.end - part.begin), output.subspan(part.begin));
    }
    group.meet(index);
}

void all_gather(RankGroup& group, std::size_t index, std::span<float> input, std::span<float> output) {
    group.publish(index, input);
    group.meet(index);
    for (std::size_t source = 0; source < group.size(); ++source) {
        const Part part = part_of(output.size(), source, group.size());
        copy(group.shown(source).first(part.end - part.begin), output.subspan(part.begin));
    }
    group.meet(index);
}

void reduce_scatter(RankGroup& group, std::size_t index, std::span<float> input, std::span<float> output) {
    group.publish(index, input);
    group.meet(index);
    const Part own = part_of(input.size(), index, group.size());
    sum_shown(group, own.begin, output.first(own.end - own.begin));
    group.meet(index);
}

void broadcast(RankGroup& group, std::size_t index, std::size_t root, std::span<float> input, std::span<float> output) {
    if (index == root) group.publish(index, input);
    group.meet(index);
    if (index != root) copy(group.shown(root), output);
    group.meet(index);
}

void reduce(RankGroup& group, std::size_t index, std::size_t root, std::span<float> input, std::span<float> output) {
    group.publish(index, input);
    group.meet(index);
    if (index == root) sum_shown(group, 0, output);
    group.meet(index);
}

void all_to_all(RankGroup& group, std::size_t index, std::span<const std::size_t> counts, std::span<float> input,
                std::span<float> output) {
    const std::size_t size = group.size();
    group.publish(index, input);
    group.meet(index);
    std::size_t filled = 0;
    for (std::size_t source = 0; source < size; ++source) {
        std::size_t offset = 0;
        for (std::size_t target = 0; target < index; ++target) offset += counts[source * size + target];
        const std::size_t count = counts[source * size + index];
        copy(group.shown(source).subspan(offset, count), output.subspan(filled));
        filled += count;
    }
    group.meet(index);
}

void send_receive(RankGroup& group, std::size_t index, int messages, std::span<float> input, std::span<float> output) {
    if (index == 0) group.publish(index, input);
    const auto pieces = static_cast<std::size_t>(messages);
    for (std::size_t message = 0; message < pieces; ++message) {
        group.meet(index);
        const Part part = part_of(output.size(), message, pieces);
        copy(group.shown(0).subspan(part.begin, part.end - part.begin), output.subspan(part.begin));
    }
    group.meet(index);
}

}  // namespace stepcast
