#include "sim/costs/dispatch_law.h"

#include <algorithm>
#include <cmath>

#include "model/base/numbers.h"

namespace stepcast {

Seconds dispatch_law_time(const DispatchLoad& load, const Dispatch& d, BytesPerSecond link,
                          int sms) {
    const Bytes work = load.rows * (load.row + d.row) + load.tokens * d.own * load.row;
    const double by_link = (work / (link * d.efficiency)).si();
    const double by_sms =
        d.per_sm > BytesPerSecond(0) && sms > 0 ? (work / (sms * d.per_sm)).si() : 0;
    const double by_token = (load.tokens * d.token).si();
    return d.launch + load.turns * d.wave +
           Seconds(std::sqrt(std::hypot(by_link * by_link, by_sms * by_sms, by_token * by_token)));
}

double ranks_of_token(int top_k, int experts, int ranks) {
    const double here = real(experts) / ranks;
    double none = 1;
    for (int i = 0; i < top_k; ++i) none *= std::max(0.0, 1 - here / (experts - i));
    return ranks * (1 - none);
}

}  // namespace stepcast
