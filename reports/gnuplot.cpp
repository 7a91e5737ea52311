// The one file that knows gnuplot-iostream. It never throws and hides that gnuplot is missing, died or wrote nothing,
// so all three are checked here.
#include "reports/gnuplot.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <gnuplot-iostream.h>
#pragma GCC diagnostic pop

#include <fmt/format.h>

#include "model/errors.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

bool gnuplot_on_path() {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        const fs::path program = fs::path(folder.empty() ? "." : folder) / "gnuplot";
        std::error_code none;
        if (fs::is_regular_file(program, none) && access(program.c_str(), X_OK) == 0) return true;
    }
    return false;
}

// A pipe to a gnuplot that died would otherwise end the program.
class IgnoreBrokenPipes {
public:
    IgnoreBrokenPipes() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
    ~IgnoreBrokenPipes() { std::signal(SIGPIPE, before_); }
    IgnoreBrokenPipes(const IgnoreBrokenPipes&) = delete;
    IgnoreBrokenPipes& operator=(const IgnoreBrokenPipes&) = delete;

private:
    void (*before_)(int);
};

std::string with_doubled(std::string text, char quote, const std::string& replacement) {
    for (std::size_t at = 0; (at = text.find(quote, at)) != std::string::npos; at += replacement.size())
        text.replace(at, 1, replacement);
    return text;
}
std::string shell_text(const fs::path& path) { return "'" + with_doubled(path.string(), '\'', "'\\''") + "'"; }

std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// What gnuplot said before it ended, and with which status (the last line, written by the shell).
struct Ending {
    std::string complaints;
    std::string status;
};

Ending read_ending(const fs::path& file) {
    Ending ending;
    std::istringstream lines(contents(file));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("stepcast-status "))
            ending.status = line.substr(16);
        else if (line.find_first_not_of(" \t^") != std::string::npos && line.find("warning:") == std::string::npos)
            ending.complaints += (ending.complaints.empty() ? "" : " / ") + line.substr(line.find_first_not_of(" \t"));
    }
    return ending;
}

// "" when the picture is whole, else what is wrong with it.
std::string fault_of(const fs::path& picture) {
    const std::string bytes = contents(picture);
    if (bytes.empty()) return fs::exists(picture) ? "it wrote an empty file" : "it wrote no file";
    const std::string tail = bytes.substr(bytes.size() - std::min<std::size_t>(bytes.size(), 16));
    if (tail.find("IEND") == std::string::npos && tail.find("</svg>") == std::string::npos)
        return "it wrote a broken file";
    return "";
}

void render(const std::string& script, const std::string& terminal, const fs::path& target) {
    const fs::path half = target.string() + ".part", said = target.string() + ".err";
    std::error_code none;
    fs::remove(half, none);
    if (!std::ofstream(said))
        throw ConfigError(target.string() + ": cannot be written; expected a folder that exists and is writable");
    {
        Gnuplot gnuplot(fmt::format("gnuplot 2> {0}; echo \"stepcast-status $?\" >> {0}", shell_text(said)));
        gnuplot << "set encoding utf8\n"
                << terminal << "\nset output '" << with_doubled(half.string(), '\'', "''") << "'\n"
                << script << "\nunset output\n";
        gnuplot.flush();
    }
    const Ending ending = read_ending(said);
    fs::remove(said, none);
    std::string fault = ending.status.empty()  ? "it could not be started"
                        : ending.status != "0" ? "it ended with status " + ending.status
                                               : fault_of(half);
    if (fault.empty()) fs::rename(half, target, none);
    if (fault.empty() && none) fault = "the file cannot be renamed: " + none.message();
    if (fault.empty()) return;
    fs::remove(half, none);
    if (!ending.complaints.empty()) fault += ": " + ending.complaints.substr(0, 400);
    throw ConfigError(
        fmt::format("{}: gnuplot made no picture: {}; expected a working gnuplot (Debian package gnuplot-nox)",
                    target.string(), fault));
}

}  // namespace

void render_plot(const std::string& script, const std::string& path) {
    if (!gnuplot_on_path())
        throw ConfigError(path + ".png: no gnuplot on PATH; install the Debian package gnuplot-nox");
    const IgnoreBrokenPipes quiet;
    const std::string png = "noenhanced size 1600,1000 font 'DejaVu Sans,20' background '#ffffff'";
    render(script,
           "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) { set terminal pngcairo " + png +
               " linewidth 2 } else { set terminal png truecolor " + png + " }",
           path + ".png");
    render(script, "set terminal svg noenhanced size 1600,1000 font 'DejaVu Sans,20' linewidth 2 background '#ffffff'",
           path + ".svg");
}

std::string gnuplot_text(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\' || c == '`') quoted += '\\';
        if (c == '\n')
            quoted += "\\n";
        else
            quoted += c;
    }
    return quoted + "\"";
}

}  // namespace stepcast
