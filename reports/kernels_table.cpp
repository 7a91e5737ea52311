#include <fmt/format.h>

#include "reports/tables.h"

namespace stepcast {

std::string kernels_table(const std::vector<KernelErrors>& kernels) {
    std::string text = fmt::format("{:<22} {:<24} {:<12} {:<16} {:>5} {:>5} {:>8} {:>8} {:>8} {:>7}\n", "kind", "device",
                                   "dtype", "cluster", "rows", "pred.", "median", "mean", "bias", "inside");
    for (const KernelErrors& k : kernels) {
        text += fmt::format("{:<22} {:<24} {:<12} {:<16} {:>5} {:>5}", k.kind, k.device, k.dtype, k.cluster, k.rows,
                            k.predicted);
        if (k.predicted > 0)
            text += fmt::format(" {:>6.1f} % {:>6.1f} % {:>+6.1f} % {:>5.0f} %", 100 * k.median_ape, 100 * k.mape,
                                100 * k.bias, 100 * k.inside_interval);
        text += '\n';
    }
    return text;
}

}  // namespace stepcast
