#include "model/whole_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "model/errors.h"

namespace stepcast {

bool is_standard_input(const std::string& path) { return path == "-" || path == "/dev/stdin"; }

std::optional<std::string> read_text(const std::string& path) {
    const auto whole = [](std::istream& in) -> std::optional<std::string> {
        std::stringstream text;
        if (!in || (in.peek() != std::istream::traits_type::eof() && !(text << in.rdbuf()))) return std::nullopt;
        return text.str();
    };
    if (is_standard_input(path)) {
        static const std::optional<std::string> typed = whole(std::cin);  // a pipe can be read only once
        return typed;
    }
    std::ifstream in(path, std::ios::binary);
    return whole(in);
}

std::string rename_target(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code none;
    const fs::file_status status = fs::status(path, none);
    if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
        throw ConfigError(path + ": cannot be written (is no regular file)");
    if (!fs::is_symlink(fs::symlink_status(path, none))) return path;
    const fs::path target = fs::weakly_canonical(path, none);
    return none ? path : target.string();
}

void write_whole(const std::vector<PlannedFile>& files) {
    namespace fs = std::filesystem;
    std::vector<std::string> written, targets;
    for (const PlannedFile& file : files) targets.push_back(rename_target(file.path));
    const auto fail = [&](const std::string& path, const std::string& why) {
        std::error_code ignored;
        for (const std::string& name : written) fs::remove(name, ignored);
        throw ConfigError(path + ": cannot be written (" + why + ")");
    };
    for (const PlannedFile& file : files) {
        if (fs::is_directory(file.path)) fail(file.path, "is a folder");
        std::error_code error;
        const fs::path folder = fs::path(file.path).parent_path();
        if (!folder.empty()) fs::create_directories(folder, error);
        if (error) fail(file.path, error.message());
        const std::string part = targets[written.size()] + ".part-" + std::to_string(getpid());
        std::ofstream out(part, std::ios::binary);
        if (!out) fail(file.path, std::strerror(errno));
        written.push_back(part);
        out << file.text;
        out.close();
        if (!out) fail(file.path, std::strerror(errno));
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
        std::error_code error;
        fs::rename(written[i], targets[i], error);
        if (error) fail(files[i].path, error.message());
    }
}

}  // namespace stepcast
