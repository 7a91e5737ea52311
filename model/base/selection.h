// Part of a list.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

namespace stepcast {

// The items for which `fits` is true, in their order.
template <class Item, class Fits>
std::vector<Item> where(const std::vector<Item>& items, Fits fits) {
    std::vector<Item> chosen;
    std::ranges::copy_if(items, std::back_inserter(chosen), fits);
    return chosen;
}

}  // namespace stepcast
