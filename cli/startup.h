// The process: its signals and streams, what it says, its version.
#pragma once

#include <functional>
#include <string>

namespace stepcast {

// OpenBLAS starts a pool of threads when it is loaded, and they spin for work: a quarter of the CPU time of a short run.
// Ranks use one thread each (exec/host_rank.cpp), so the pool is closed; OpenBLAS opens it again when it is needed.
void close_blas_threads();

// Freed memory stays with the process, so many bytes of it: simulations allocate the same arrays over and over.
void keep_freed_memory(int most = 1 << 30);

// A closed standard stream would lend its number to the next file that is opened, and what is printed would go there.
void open_standard_files();

// SIGINT and SIGTERM end the program at once, exit code 130 and 143: what is not whole has no name (model/files/whole_files.h).
// From the first call of stop_asked() on, the first signal is only noted, so that the caller ends at a good place;
// the second ends the program.
void end_on_signals();
bool stop_asked();
int exit_code_of_stop();  // 0 when nothing was noted

// Throws ConfigError when not all that was printed has arrived, as on a full disk.
void finish_output();

// To stdout: a result. Names and messages hold what files and the command line say: none of it moves the cursor of a terminal.
void print(const std::string& text);

// Lines that are no result: notes, warnings, what was written.
using Say = std::function<void(const std::string& line)>;

// To stderr, behind the program's name; no cursor moves there either.
void say_on_stderr(const std::string& line);

// What --version says: "stepcast 0.1.0", then a line each for commit, compiler, and the libraries that this build has or lacks.
std::string version_text();

}  // namespace stepcast
