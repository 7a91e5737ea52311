// Stands in for host_device.cpp in a build without OpenBLAS.
#include "exec/host_device.h"
#include "model/base/errors.h"

namespace stepcast {

std::unique_ptr<Device> open_host_device(int) {
    throw ConfigError(
        "--device host: this program was built without it (WITH_HOST); install libopenblas-dev and "
        "build again, or use "
        "--device cuda");
}

}  // namespace stepcast
