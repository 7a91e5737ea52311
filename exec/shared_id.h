// How the processes of a run get NCCL's id from rank 0: by a file that all of them see, or by MPI.
#pragma once

#include <string>

#include "exec/launcher.h"
#include "model/base/units.h"

namespace stepcast {

class SharedId {
public:
    // `own` counts on rank 0, which writes it to launch.id_file in one step; the others wait for
    // that file. Without one, MPI broadcasts it. Throws ConfigError if nothing says where processes
    // meet, if the file is there before rank 0 wrote it, or if it is older than `timeout` or not of
    // as many processes: such a file is of another run. Throws DeviceError if none appears within
    // `timeout`.
    SharedId(const Launch& launch, const std::string& own, Seconds timeout);
    // Rank 0 removes the file, so keep this until all processes have read it.
    ~SharedId();
    SharedId(const SharedId&) = delete;
    SharedId& operator=(const SharedId&) = delete;

    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string written_, text_;
};

// Returns rank 0's text on every process that mpirun or srun started. Throws ConfigError if the
// program was built without MPI, DeviceError if MPI finds another number of processes.
std::string broadcast_by_mpi(const std::string& text, int processes);

}  // namespace stepcast
