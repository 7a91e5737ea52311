// What the program settles with its libraries before it does anything.
#pragma once

namespace stepcast {

// OpenBLAS starts a pool of threads when it is loaded, and they spin for work: a quarter of the CPU time of a short run.
// Ranks use one thread each (exec/host_rank.cpp), so the pool is closed; OpenBLAS opens it again when it is needed.
void close_blas_threads();

// Freed memory stays with the process: simulations allocate the same arrays over and over.
void keep_freed_memory();

}  // namespace stepcast
