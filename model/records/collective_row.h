// A measured collective.
#pragma once

#include <optional>
#include <string>

#include "model/base/units.h"
#include "model/records/provenance.h"

namespace stepcast {

// `op` is a kind_name(). `bytes` is as in model/graph/op.h: the whole result of an all-gather, the
// whole input of a reduce-scatter, and for an all-to-all what one rank holds.
struct CollectiveRow {
    std::string op;
    int ranks = 0, nodes = 0;
    Bytes bytes;
    Seconds time;
    RowHash row = 0;
    bool in_switch = true;  // the switch can add this dtype
    // largest message that the library's release treats as small, where the row tells the release
    std::optional<Bytes> small = {};
    friend bool operator==(const CollectiveRow&, const CollectiveRow&) = default;
};

}  // namespace stepcast
