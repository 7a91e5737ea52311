// Lists: what is in them, parts of them, several as one, the places of their items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace stepcast {

template <class Items, class Value, class Of>
concept Holds = requires(const Items& items, const Value& value, Of of) {
    std::ranges::find(items, value, of);
};
// Whether one of the items, or what `of` takes from it, is the value.
template <class Items, class Value, class Of = std::identity>
requires Holds<Items, Value, Of>
bool contains(const Items& items, const Value& value, Of of = {}) {
    return std::ranges::find(items, value, of) != std::ranges::end(items);
}

// The first item that is the value, or of which `of` takes it, and the first for which `fits` is
// true; nullptr if there is none.
template <class Items, class Value, class Of = std::identity>
auto first_with(Items& items, const Value& value, Of of = {}) {
    const auto found = std::ranges::find(items, value, of);
    return found == std::ranges::end(items) ? nullptr : &*found;
}
template <class Items, class Fits>
auto first_where(Items& items, Fits fits) {
    const auto found = std::ranges::find_if(items, fits);
    return found == std::ranges::end(items) ? nullptr : &*found;
}
// What the map has under the key; nullptr if it has nothing.
template <class Map, class Key = typename Map::key_type>
auto value_in(Map& map, const Key& key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
}

// The items for which `fits` is true, in their order.
template <class Item, class Fits>
std::vector<Item> where(const std::vector<Item>& items, Fits fits) {
    std::vector<Item> chosen;
    std::ranges::copy_if(items, std::back_inserter(chosen), fits);
    return chosen;
}

template <class Item, class Items>
void append(std::vector<Item>& to, const Items& more) {
    to.insert(to.end(), std::begin(more), std::end(more));
}
template <class Item>
void append(std::vector<Item>& to, std::vector<Item>&& more) {
    std::ranges::move(more, std::back_inserter(to));
}

// Appends the item if it is not there.
template <class Item>
void add_once(std::vector<Item>& to, std::type_identity_t<Item> item) {
    if (!contains(to, item)) to.push_back(std::move(item));
}

// 0 to the number of items - 1, for loops that need the place of an item, too. The number is that
// at the beginning.
class Indices {
public:
    class Iterator {
    public:
        constexpr explicit Iterator(std::size_t at) : at_(at) {}
        constexpr std::size_t operator*() const { return at_; }
        constexpr Iterator& operator++() {
            ++at_;
            return *this;
        }
        constexpr bool operator==(const Iterator&) const = default;

    private:
        std::size_t at_;
    };
    constexpr explicit Indices(std::size_t count) : count_(count) {}
    [[nodiscard]] constexpr Iterator begin() const { return Iterator(0); }
    [[nodiscard]] constexpr Iterator end() const { return Iterator(count_); }

private:
    std::size_t count_;
};
template <class Items>
constexpr Indices indices_of(const Items& items) {
    return Indices(std::size(items));
}

}  // namespace stepcast
