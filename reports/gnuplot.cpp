// The one file that knows gnuplot-iostream. It never throws and hides that gnuplot is missing, died or wrote nothing,
// so all three are checked here.
#include "reports/gnuplot.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
    for (std::string folder; std::getline(folders, folder, ':');)
        if (access((folder + "/gnuplot").c_str(), X_OK) == 0) return true;
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

// What gnuplot complained of, without warnings (missing fonts, empty ranges).
std::string errors_in(const fs::path& complaints) {
    std::ifstream in(complaints);
    std::string errors;
    for (std::string line; std::getline(in, line);)
        if (line.find(" line ") != std::string::npos && line.find("warning") == std::string::npos) errors += line + " ";
    return errors;
}

void render(const std::string& script, const std::string& terminal, const fs::path& target) {
    const fs::path half = target.string() + ".part", complaints = target.string() + ".err";
    {
        Gnuplot gnuplot("gnuplot 2> '" + complaints.string() + "'");
        gnuplot << "set terminal " << terminal << "\nset output '" << half.string() << "'\n" << script << "\nunset output\n";
        gnuplot.flush();
    }
    const std::string said = errors_in(complaints);
    fs::remove(complaints);
    std::error_code none;
    const auto size = fs::file_size(half, none);
    if (none || size == 0 || !said.empty()) {
        fs::remove(half, none);
        throw ConfigError(fmt::format("{}: gnuplot made no picture{}; expected a working gnuplot (Debian package gnuplot-nox)", target.string(),
                                      said.empty() ? ": it ended early or wrote an empty file" : ": " + said.substr(0, 300)));
    }
    fs::rename(half, target);
}

}  // namespace

void render_plot(const std::string& script, const std::string& path) {
    if (!gnuplot_on_path()) throw ConfigError(path + ".png: gnuplot not found; install the Debian package gnuplot-nox");
    const IgnoreBrokenPipes quiet;
    render(script, "pngcairo noenhanced size 1600,1000 font 'DejaVu Sans,20' background '#ffffff' linewidth 2", path + ".png");
    render(script, "svg noenhanced size 1100,700 font 'DejaVu Sans,15' background '#ffffff'", path + ".svg");
}

}  // namespace stepcast
