// Fields that are keys: one line declares type, name, default, meaning and allowed values.
//   struct HostCosts {
//       KEY(Seconds, call, Seconds(5e-6), "issue one kernel", 0, upto::seconds);
// declares the member `call` with that default, and the key `call` of the table that HostCosts
// represents (key_table.cpp). A struct inside another struct is a nested table, or no table of its
// own if its name is empty, and the meaning of its field precedes the meanings of its keys. Other
// table files declare their fields in the same way (fields.h).
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

namespace stepcast {

// Parts of a step, by what is computed of each once and kept while other keys of the split change
// (sim/bounds). What is computed from a part changes with it: the pipeline with the ranks, what is
// sent with the pipeline and the shape, data parallelism with all of these.
enum class Affects : unsigned {
    ranks = 1,     // which ranks form a group, and where they are
    shape = 2,     // work and tensors of a layer on one rank
    pipeline = 4,  // the slots of the stages: their layers, micro-batches and order
    sends = 8,     // what goes between stages
    data = 16,     // collectives of gradients and parameters, and the update
    overlap = 32,  // which of these collectives other work hides
    memory = 64    // the most that a rank holds
};
// The parts that a key changes, when it alone is another.
struct Effects {
    unsigned parts = 0;
    constexpr Effects() = default;
    constexpr Effects(Affects part) : parts(static_cast<unsigned>(part)) {}
    [[nodiscard]] constexpr bool has(Affects part) const {
        return (parts & static_cast<unsigned>(part)) != 0;
    }
    friend constexpr Effects operator|(Effects a, Effects b) {
        a.parts |= b.parts;
        return a;
    }
};
constexpr Effects operator|(Affects a, Affects b) { return Effects(a) | Effects(b); }

// `least` and `most` bound numbers (in SI base units), inclusive. A default below `least` makes the
// key required. A field with a null meaning is no key of a table that other tables hold. A
// declaration may use `table`, the name of the field that holds its struct.
struct KeyTexts {
    std::string_view name;
    const char* meaning;
    double least = 0, most = 1e21;
    Effects affects = {};  // of the keys of a split
    constexpr KeyTexts(std::string_view of, const char* text, double from = 0, double to = 1e21,
                       Effects effects = {})
        : name(of), meaning(text), least(from), most(to), affects(effects) {}
    constexpr KeyTexts(std::string_view of, const char* text, Effects effects)
        : name(of), meaning(text), affects(effects) {}
};
template <auto member>
struct Keyed : KeyTexts {
    using KeyTexts::KeyTexts;
};

namespace atleast {
// share: of a datasheet rate
inline constexpr double share = 1e-4, any = -std::numeric_limits<double>::infinity();
inline constexpr double more_than_0 = std::numeric_limits<double>::denorm_min();
}  // namespace atleast
namespace upto {
inline constexpr double any = std::numeric_limits<double>::infinity();
inline constexpr double share = 10, seconds = 1e4, rate = 1e18;  // rate: bytes/s
// width: hidden, ffn, heads, experts
inline constexpr double width = 1 << 20, tokens = 1 << 24, ranks = 1 << 20;
}  // namespace upto

// C++ has no reflection, so the keys of a struct are found by their line numbers.
template <int line>
struct KeyLine {};
inline constexpr int most_lines = 500;

#define KEY_AT_LINE                                                                       \
    static_assert(__LINE__ < most_lines, "a key beyond the last line that is looked at"); \
    static constexpr auto key_at(KeyLine<__LINE__>, auto* of,                             \
                                 [[maybe_unused]] std::string_view table)
#define KEY_NAMED(type, field, value, ...)                                                  \
    KEY_AT_LINE { return Keyed<&std::remove_pointer_t<decltype(of)>::field>{__VA_ARGS__}; } \
    type field = value
#define KEY(type, field, value, ...) KEY_NAMED(type, field, value, #field, __VA_ARGS__)

template <class Table, int line>
concept KeyAt = requires(Table* of) {
    Table::key_at(KeyLine<line>(), of, "");
};

// Calls `use` with the line of each key of a struct. The lines are listed first, because a call
// for each of the many without a key takes a compiler longer.
template <class Table>
constexpr void each_key_line(const auto& use) {
    constexpr auto lines = []<int... line>(std::integer_sequence<int, line...>) {
        std::array<int, (std::size_t(0) + ... + KeyAt<Table, line>)> keys{};
        std::size_t count = 0;
        ((KeyAt<Table, line> ? void(keys[count++] = line) : void()), ...);
        return keys;
    }
    (std::make_integer_sequence<int, most_lines>());
    [&]<std::size_t... i>(std::index_sequence<i...>) { (use(KeyLine<lines[i]>()), ...); }
    (std::make_index_sequence<lines.size()>());
}

}  // namespace stepcast
