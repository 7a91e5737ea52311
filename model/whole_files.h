// Files appear whole or not at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stepcast {

struct PlannedFile {
    std::string path, text;
};

// The whole of a file, "-" and /dev/stdin being standard input, which is read once and kept; nothing where none can be read.
std::optional<std::string> read_text(const std::string& path);
bool is_standard_input(const std::string& path);

// Where a file that is renamed into `path` belongs: a link is followed, and what exists but is no regular file (a
// device, a pipe) is refused with ConfigError, since the rename would replace it.
std::string rename_target(const std::string& path);

// Writes every text beside its place, then renames all; on failure removes what it wrote and throws ConfigError.
// Makes missing folders.
void write_whole(const std::vector<PlannedFile>& files);

}  // namespace stepcast
