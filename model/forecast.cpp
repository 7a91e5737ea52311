#include "model/forecast.h"

namespace stepcast {

Seconds total(const Breakdown& breakdown) {
    return breakdown.compute + breakdown.memory + breakdown.exposed_communication + breakdown.bubble +
           breakdown.imbalance + breakdown.host;
}

}  // namespace stepcast
