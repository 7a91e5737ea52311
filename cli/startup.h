// The process: its signals, streams, messages and version.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace stepcast {

// OpenBLAS starts a pool of threads when it is loaded, and they spin for work: a quarter of the CPU
// time of a short run. Ranks use one thread each (exec/host_rank.cpp), so this closes the pool;
// OpenBLAS opens it again when it needs it.
void close_blas_threads();

// Keeps up to `most` bytes of freed memory in the process, because simulations allocate the same
// arrays again and again.
void keep_freed_memory(int most = 1 << 30);

// Opens closed standard streams. Otherwise the next file that is opened would get their number, and
// printed text would go there.
void open_standard_files();

// SIGINT and SIGTERM end the program at once, with exit code 130 and 143; unfinished files have no
// name yet (model/base/whole_files.h). After the first call of stop_asked(), the first signal is
// only noted, so that the caller ends at a good place, and the second ends it.
void end_on_signals();
bool stop_asked();
int exit_code_of_stop();  // 0 if no signal was noted

// Throws ConfigError if not all that was printed could be written, as on a full disk.
void finish_output();

// Prints a result to stdout. Its names may come from any file, so control characters are made
// harmless for a terminal.
void print(const std::string& text);

// Takes lines that are no result: notes, warnings, what was written.
using Say = std::function<void(const std::string& line)>;

// Prints to stderr, behind the program's name, and as safe for a terminal as print().
void say_on_stderr(const std::string& line);

// Shows how far long work is: on a terminal one line that is overwritten, which an empty text
// clears; in a log a line after 10 s, then every 30 s.
void show_progress(std::string_view text);

// The text of --version: "stepcast 0.2.0", then one line each for commit, compiler, and the
// libraries that this build has or lacks.
std::string version_text();

}  // namespace stepcast
