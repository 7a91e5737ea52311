// The only file that starts gnuplot. Script and picture go through memory, without paths and
// without a shell. gnuplot uses its default settings, not those of the user's home.
#include "reports/plot_frame.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/plain_text.h"
#include "model/base/whole_files.h"
#include "reports/table.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

// "" if there is none. Relative folders in PATH do not count: files there are data.
std::string gnuplot_on_path() {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        const fs::path program = fs::path(folder) / "gnuplot";
        std::error_code none;
        if (program.is_absolute() && fs::is_regular_file(program, none) &&
            access(program.c_str(), X_OK) == 0)
            return program.string();
    }
    return "";
}

// A file that is only in memory.
class MemoryFile {
public:
    explicit MemoryFile(std::string_view text = {}) : file_(memfd_create("stepcast", MFD_CLOEXEC)) {
        if (!(std::ofstream(path(), std::ios::binary) << text << std::flush))
            throw ConfigError("a plot: no memory for its script");
    }
    ~MemoryFile() { close(file_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    [[nodiscard]] int file() const { return file_; }
    [[nodiscard]] std::string text() const {
        std::ifstream file(path(), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }

private:
    [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

    int file_;
};

// Our environment without variables that gnuplot reads as commands and paths (GNUTERM, GNUPLOT_LIB,
// ..).
std::vector<char*> plain_environment() {
    std::vector<char*> kept;
    for (char** entry = environ; *entry != nullptr; ++entry)
        if (std::string_view(*entry).substr(0, 3) != "GNU" &&
            !std::string_view(*entry).starts_with("FIT_"))
            kept.push_back(*entry);
    kept.push_back(nullptr);
    return kept;
}

constexpr int not_started = -1, gave_up = -2;

// The exit status as in a shell, or one of the two above. A child that still runs after `patience`
// is killed.
int ended(pid_t child, std::chrono::milliseconds patience) {
    constexpr std::chrono::milliseconds often(5);
    const auto until = std::chrono::steady_clock::now() + patience;
    int status = 0;
    for (bool killed = false;;) {
        const pid_t done = waitpid(child, &status, killed ? 0 : WNOHANG);
        if (done < 0 && errno != EINTR) return not_started;
        if (done == child && killed) return gave_up;
        if (done == child)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (!killed && std::chrono::steady_clock::now() >= until)
            killed = kill(child, SIGKILL) == 0;
        else if (!killed)
            std::this_thread::sleep_for(often);
    }
}

int run(const std::string& program, const MemoryFile& script, const MemoryFile& picture,
        const MemoryFile& said, std::chrono::milliseconds patience) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, script.file(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, picture.file(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, said.file(), STDERR_FILENO);
    std::string name = "gnuplot", defaults = "--default-settings";
    char* const arguments[] = {name.data(), defaults.data(), nullptr};
    pid_t child = 0;
    std::vector<char*> environment = plain_environment();
    const int started =
        posix_spawn(&child, program.c_str(), &files, nullptr, arguments, environment.data());
    posix_spawn_file_actions_destroy(&files);
    return started != 0 ? not_started : ended(child, patience);
}

// gnuplot's messages in one line, without warnings and carets.
std::string complaints_in(const std::string& said) {
    std::string complaints;
    std::istringstream lines(said);
    for (std::string line; std::getline(lines, line);)
        if (line.find_first_not_of(" \t^") != std::string::npos &&
            line.find("warning:") == std::string::npos)
            complaints +=
                (complaints.empty() ? "" : " / ") + line.substr(line.find_first_not_of(" \t"));
    return complaints.substr(0, 400);
}

// "" if the picture is complete, else what is wrong with it.
std::string fault_of(const std::string& picture) {
    if (picture.empty()) return "it wrote nothing";
    const std::string_view tail = std::string_view(picture).substr(
        picture.size() - std::min<std::size_t>(picture.size(), 16));
    const bool whole = tail.find("IEND") != std::string_view::npos ||
                       tail.find("</svg>") != std::string_view::npos;
    return whole ? "" : "it wrote a broken picture";
}

PlannedFile render(const std::string& program, const std::string& script,
                   const std::string& terminal, const std::string& target,
                   std::chrono::milliseconds patience) {
    const MemoryFile input("set encoding utf8\n" + terminal + "\n" + script + "\nunset output\n"),
        picture, said;
    const int status = run(program, input, picture, said, patience);
    const std::string bytes = picture.text(), complaints = complaints_in(said.text());
    std::string fault =
        status == gave_up
            ? fmt::format("it was still at it after {} s and was ended", patience.count() / 1000.0)
        : status < 0  ? "it could not be started"
        : status != 0 ? fmt::format("it ended with status {}", status)
                      : fault_of(bytes);
    if (fault.empty()) return {target, bytes};
    if (!complaints.empty()) fault += ": " + complaints;
    throw ConfigError(fmt::format(
        "{}: gnuplot made no picture: {}; expected a working gnuplot (Debian package gnuplot-nox)",
        target, fault));
}

}  // namespace

void render_plot(const std::string& script, const std::string& path,
                 std::chrono::milliseconds patience) {
    const std::string program = gnuplot_on_path();
    if (program.empty())
        throw ConfigError(path +
                          ".png: no gnuplot on PATH; install the Debian package gnuplot-nox");
    const std::string png = "noenhanced size 1600,1000 font 'DejaVu Sans,20' background '#ffffff'";
    write_whole({render(program, script,
                        "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) { set terminal pngcairo " + png +
                            " linewidth 2 } else { set terminal png truecolor " + png + " }",
                        path + ".png", patience),
                 render(program, script,
                        "set terminal svg noenhanced size 1600,1000 font 'DejaVu Sans,20' "
                        "linewidth 2 background '#ffffff'",
                        path + ".svg", patience)});
}

std::string gnuplot_text(std::string_view text) {
    // gnuplot runs text between `` in a shell
    return "\"" +
           escaped(plain_text(text, "\n"),
                   {{'"', "\\\""}, {'\\', "\\\\"}, {'`', "\\`"}, {'\n', "\\n"}}) +
           "\"";
}

}  // namespace stepcast
