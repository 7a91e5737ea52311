#include "exec/cuda/check.h"

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

[[noreturn]] void refuse(const std::source_location& where, const std::string& what) {
    const std::string_view path = where.file_name();
    throw DeviceError(
        fmt::format("{}:{}: {}", path.substr(path.rfind('/') + 1), where.line(), what));
}

}  // namespace

void check(cudaError_t code, std::source_location where) {
    if (code == cudaSuccess) return;
    // clears an error that is not permanent, so that the next call does not report it
    cudaGetLastError();
    refuse(where, fmt::format("CUDA error {}, {}: {}", as_int(code), cudaGetErrorName(code),
                              cudaGetErrorString(code)));
}

void check(cublasStatus_t code, std::source_location where) {
    if (code == CUBLAS_STATUS_SUCCESS) return;
    refuse(where, fmt::format("cuBLAS status {}, {}", as_int(code), cublasGetStatusName(code)));
}

void check(ncclResult_t code, std::source_location where) {
    if (code == ncclSuccess) return;
    refuse(where, fmt::format("NCCL error {}, {}", as_int(code), ncclGetErrorString(code)));
}

std::string cuda_version(int number) {
    return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::string missing_device(cudaError_t code, int driver, int toolkit, int count) {
    if (code == cudaErrorInsufficientDriver && driver == 0) return "driver not found";
    if (code == cudaErrorInsufficientDriver)
        return fmt::format(
            "the driver is older than the toolkit: it serves CUDA {}, this program needs {}; "
            "update it",
            cuda_version(driver), cuda_version(toolkit));
    if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0))
        return "a driver, but no GPU (or CUDA_VISIBLE_DEVICES hides all)";
    if (code != cudaSuccess)
        return fmt::format("CUDA error {}, {}: {}", as_int(code), cudaGetErrorName(code),
                           cudaGetErrorString(code));
    return "";
}

}  // namespace stepcast
