#include "reports/gnuplot.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <gnuplot-iostream.h>

#include "model/base/errors.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"
#include "reports/plot_frame.h"
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
        const fs::file_status status = fs::status(program, none);
        constexpr auto runs =
            fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
        if (program.is_absolute() && fs::is_regular_file(status) &&
            (status.permissions() & runs) != fs::perms::none)
            return program.string();
    }
    return "";
}

// A file without a name, which the commands that are started inherit.
class UnnamedFile {
public:
    UnnamedFile() : file_(std::tmpfile(), std::fclose) {
        if (!file_) throw ConfigError("a plot: no temporary file can be made for it");
    }
    [[nodiscard]] std::string path() const {
        return fmt::format("/proc/self/fd/{}", fileno(file_.get()));
    }
    [[nodiscard]] std::string text() const {
        std::ifstream file(path(), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }

private:
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// What a shell runs: gnuplot with its default settings, ended after `patience`, without what the
// environment tells it to load. Afterwards its exit status, and what it left unread, so that we
// are not stopped for writing to nobody.
std::string command_of(const std::string& program, const UnnamedFile& picture,
                       const UnnamedFile& complaints, std::chrono::milliseconds patience) {
    return fmt::format(
        "exec 2>{}; PATH=/usr/bin:/bin; unset GNUTERM GNUPLOT_LIB GNUPLOT_FONTPATH GNUPLOT_PS_DIR "
        "GNUPLOT_LUA_DIR GNUPLOT_DRIVER_DIR GNUPLOT_DEFAULT_GDFONT FIT_SCRIPT FIT_LOG; "
        "timeout -k 5 {} {} --default-settings >{}; printf '\\n%s' $? >&2; cat >/dev/null",
        complaints.path(), std::chrono::duration<double>(patience).count(), shell_word(program),
        picture.path());
}

// gnuplot's messages in one line, without warnings and carets.
std::string complaints_in(const std::string& said) {
    std::string complaints;
    std::istringstream lines(said);
    for (std::string line; std::getline(lines, line);)
        if (line.find_first_not_of(" \t^") != std::string::npos && !has(line, "warning:"))
            complaints +=
                (complaints.empty() ? "" : " / ") + line.substr(line.find_first_not_of(" \t"));
    return complaints.substr(0, 400);
}

// "" if the picture is complete, else what is wrong with it.
std::string fault_of(const std::string& picture) {
    if (picture.empty()) return "it wrote nothing";
    const std::string_view tail = std::string_view(picture).substr(
        picture.size() - std::min<std::size_t>(picture.size(), 16));
    const bool whole = has(tail, "IEND") || has(tail, "</svg>");
    return whole ? "" : "it wrote a broken picture";
}

PlannedFile render(const std::string& program, const Drawing& drawing, const std::string& terminal,
                   const std::string& target, std::chrono::milliseconds patience) {
    const UnnamedFile picture, complaints;
    {
        Gnuplot gnuplot(command_of(program, picture, complaints, patience));
        gnuplot << std::defaultfloat << std::setprecision(7) << "set encoding utf8\n"
                << terminal << "\n";
        for (const DataBlock& block : drawing.data) {
            gnuplot << "$" << block.name << " << e\n";  // with an "e" the rows end
            gnuplot.send1d(block.rows);
        }
        gnuplot << drawing.script << "\nunset output\n";
    }  // waits for gnuplot's end
    std::string said = complaints.text();
    const std::size_t end = said.rfind('\n');
    const std::string status = end == std::string::npos ? "" : said.substr(end + 1),
                      bytes = picture.text();
    std::string fault = status == "124"
                            ? fmt::format("it was still at it after {} s and was ended",
                                          std::chrono::duration<double>(patience).count())
                        : status.empty() ? "it could not be started"
                        : status != "0"  ? "it ended with status " + status
                                         : fault_of(bytes);
    if (fault.empty()) return {target, bytes};
    if (said = complaints_in(said.substr(0, end)); !said.empty()) fault += ": " + said;
    refuse(
        "{}: gnuplot made no picture: {}; expected a working gnuplot (Debian package gnuplot-nox)",
        target, fault);
}

}  // namespace

void render_plot(const Drawing& drawing, const std::string& path,
                 std::chrono::milliseconds patience) {
    const std::string program = gnuplot_on_path();
    if (program.empty())
        throw ConfigError(path +
                          ".png: no gnuplot on PATH; install the Debian package gnuplot-nox");
    const std::string look =
        fmt::format("noenhanced size {},{} font 'DejaVu Sans,20' background '#ffffff' linewidth 2",
                    picture_width, drawing.height);
    write_whole({render(program, drawing,
                        fmt::format("if (strstrt(GPVAL_TERMINALS, 'pngcairo')) {{ set terminal "
                                    "pngcairo {0} }} else {{ set terminal png truecolor {0} }}",
                                    look),
                        path + ".png", patience),
                 render(program, drawing, "set terminal svg " + look, path + ".svg", patience)});
}

std::string gnuplot_text(std::string_view text) {
    // gnuplot runs text between `` in a shell
    return "\"" +
           escaped(plain_text(text, "\n"),
                   {{'"', "\\\""}, {'\\', "\\\\"}, {'`', "\\`"}, {'\n', "\\n"}}) +
           "\"";
}

}  // namespace stepcast
