// What the closed forms keep of one part of a step is looked up by the keys of the split that
// declare this part (Affects in model/input/keyed.h). Made from these declarations: whether a part
// is another, and the key of a shape.
#pragma once

#include <array>
#include <compare>
#include <string>

#include "model/input/keyed.h"
#include "model/runtime_rules.h"

namespace stepcast {

// A split, and what its base says of gradients.
struct SplitOfBase {
    const ParallelPlan& plan;
    const Gradients& gradients;
};

// Whether two splits of one base differ in a key that declares the part.
template <Affects part>
bool changes(const SplitOfBase& before, const SplitOfBase& now);

// What the keys that declare the shape count as, in their order, and the text of those that are
// texts.
struct ShapeKey {
    std::array<int, 32> numbers{};
    std::string text;
    friend auto operator<=>(const ShapeKey&, const ShapeKey&) = default;
};
ShapeKey shape_key(const SplitOfBase& split);

}  // namespace stepcast
