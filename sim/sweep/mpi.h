// A sweep over processes that an MPI launcher started (mpirun -n 64 stepcast sweep ..): the first process hands out jobs to
// whoever is free, itself included. Without MPI in the build: sweep_no_mpi.cpp.
#pragma once

#include <string>

#include "sim/sweep/pool.h"

namespace stepcast {

// How many processes the launcher started, and which of them this is; 1 and 0 without a launcher.
int mpi_processes();
int mpi_process();

// "Open MPI v4.1.4"; "" in a build without MPI.
std::string mpi_library();

// Of the first process.
RunJobs open_mpi_team(const SweepSpace& space, const SweepQuestion& question);

// Of the others: serves jobs until the first process has no more.
void help_mpi_team(const SweepSpace& space, const SweepQuestion& question);

}  // namespace stepcast
