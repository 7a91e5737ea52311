#include "exec/shared_id.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "exec/steady_clock.h"
#include "model/base/errors.h"
#include "model/base/whole_files.h"

namespace stepcast {

namespace {

namespace fs = std::filesystem;

std::string head_of(const Launch& launch) {
    return fmt::format("stepcast: NCCL's id for {} processes\n", launch.processes);
}

[[noreturn]] void refuse(const Launch& launch, const std::string& why) {
    throw ConfigError(
        fmt::format("STEPCAST_ID_FILE: {} {}; remove it if no run uses it, or name another file",
                    launch.id_file, why));
}

// The age of the file; none if it is not there yet.
std::optional<Seconds> age_of(const std::string& path) {
    std::error_code missing;
    const auto written = fs::last_write_time(path, missing);
    if (missing) return {};
    return Seconds(
        std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count());
}

std::string wait_for(const Launch& launch, Seconds timeout) {
    const Seconds deadline = steady_now() + timeout;
    std::optional<Seconds> age;
    while (!(age = age_of(launch.id_file))) {
        if (steady_now() >= deadline)
            throw DeviceError(
                fmt::format("rank 0 wrote no {} (STEPCAST_ID_FILE) within {}; expected a folder "
                            "that all processes see",
                            launch.id_file, to_string(timeout)));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (*age > timeout) refuse(launch, fmt::format("is {} old, of another run", to_string(*age)));
    const std::string text = read_text(launch.id_file, "NCCL's id from rank 0"),
                      head = head_of(launch);
    if (!text.starts_with(head))
        refuse(launch, fmt::format("holds no id for {} processes", launch.processes));
    return text.substr(head.size());
}

}  // namespace

SharedId::SharedId(const Launch& launch, const std::string& own, Seconds timeout) {
    if (launch.id_file.empty() && !launch.by_mpi)
        throw ConfigError(fmt::format(
            "execute: started as {} processes, and nothing says where they meet; set "
            "STEPCAST_ID_FILE to the name of a new file in a folder that all of them see, or start "
            "them by mpirun or srun, or one process for all GPUs of a node (MASTER_ADDR and "
            "MASTER_PORT are not used)",
            launch.processes));
    if (launch.id_file.empty()) {
        text_ = broadcast_by_mpi(own, launch.processes);
    } else if (launch.rank > 0) {
        text_ = wait_for(launch, timeout);
    } else {
        if (fs::exists(launch.id_file)) refuse(launch, "is there already");
        write_whole({{launch.id_file, head_of(launch) + own}});
        written_ = launch.id_file;
        text_ = own;
    }
}

SharedId::~SharedId() {
    std::error_code gone;
    if (!written_.empty()) fs::remove(written_, gone);
}

}  // namespace stepcast
