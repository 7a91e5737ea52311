#include "cli/startup.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"

namespace stepcast {

void print(const std::string& text) { std::fputs(plain_text(text, "\n\t").c_str(), stdout); }

void say_on_stderr(const std::string& line) {
    constexpr std::size_t longest = 4000;
    const std::string text = plain_text(line.substr(0, longest), "\n\t");
    std::fprintf(stderr, "stepcast: %s%s\n", text.c_str(), line.size() > longest ? " .." : "");
}

void show_progress(std::string_view text) {
    using Clock = std::chrono::steady_clock;
    static Clock::time_point next_line = Clock::now() + std::chrono::seconds(10), shown;
    const auto now = Clock::now();
    if (isatty(STDERR_FILENO)) {
        if (!text.empty() && now - shown < std::chrono::milliseconds(50)) return;
        shown = text.empty() ? Clock::time_point() : now;
        std::fprintf(stderr, "\r\033[K%.*s", as_int(text.size()), text.data());
    } else if (!text.empty() && now >= next_line) {
        next_line = now + std::chrono::seconds(30);
        say_on_stderr(std::string(text));
    }
}

void close_blas_threads() {
    using Close = int (*)();
    // Only builds of OpenBLAS with its own threads have this function.
    if (const auto close = reinterpret_cast<Close>(dlsym(RTLD_DEFAULT, "blas_thread_shutdown_")))
        close();
}

void keep_freed_memory(int most) {
    mallopt(M_MMAP_THRESHOLD, most);
    mallopt(M_TRIM_THRESHOLD, most);
    mallopt(M_TOP_PAD, 16 << 20);
}

namespace {

// Read by the thread of every rank. A signal handler may only touch lock-free variables.
std::atomic<int> noted = 0, may_note = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
    constexpr int as_shells_say = 128;
    if (may_note == 0 || noted != 0) _exit(as_shells_say + signal);
    noted = signal;
    constexpr char text[] =
        "\nstepcast: ends after this sample or pass; a second signal ends at once\n";
    const ssize_t said = write(STDERR_FILENO, text, sizeof text - 1);
    (void)said;
}

}  // namespace

void end_on_signals() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int signal : {SIGINT, SIGTERM}) {
        struct sigaction before {};
        sigaction(signal, nullptr, &before);
        // stays ignored under nohup or `&` of a shell
        if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
    }
}

bool stop_asked() {
    may_note = 1;
    return noted != 0;
}

int exit_code_of_stop() { return noted != 0 ? 128 + noted : 0; }

void open_standard_files() {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        // open() takes the lowest free number; writing to it fails
        if (fcntl(standard, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
}

void finish_output() {
    const bool lost = std::ferror(stdout) != 0;
    if (std::fflush(stdout) != 0 || lost)
        throw ConfigError("standard output: cannot be written (" +
                          std::string(std::strerror(errno)) + ")");
}

}  // namespace stepcast
