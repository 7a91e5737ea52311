#include "model/input/split_keys.h"

#include <algorithm>
#include <type_traits>

#include "model/base/numbers.h"
#include "model/input/key_values.h"

namespace stepcast {
namespace {

// Takes the fields of a table of the plan that are keys of the walk.
template <class Table, Table ParallelPlan::*table>
void take_fields(std::string_view prefix, std::array<SplitField, split_key_count>& fields) {
    each_key<Table>(
        "", [&]<auto member>(const Keyed<member>& row) {
            using Field = std::remove_cvref_t<decltype(Table{}.*member)>;
            const auto at = std::ranges::find(name_list<SplitKey>, row.name);
            if constexpr (std::is_integral_v<Field> || std::is_enum_v<Field>)
                if (at != name_list<SplitKey>.end())
                    fields[as_index(at - name_list<SplitKey>.begin())] = {
                        fmt::format("{}.{}", prefix, row.name),
                        [](const ParallelPlan& p) { return as_int(p.*table.*member); },
                        [](ParallelPlan& p, int value) {
                            p.*table.*member = static_cast<Field>(value);
                        }};
        });
}

}  // namespace

const std::array<SplitField, split_key_count> split_fields = [] {
    std::array<SplitField, split_key_count> fields;
    take_fields<Parallelism, &ParallelPlan::parallelism>("parallelism", fields);
    take_fields<Exchanges, &ParallelPlan::exchanges>("runtime.exchanges", fields);
    return fields;
}();

std::size_t split_index(std::string_view key) {
    const Key* const known = find_key(key);
    return as_index(
        std::ranges::find(split_fields, known ? canonical(*known) : key, &SplitField::key) -
        split_fields.begin());
}

}  // namespace stepcast
