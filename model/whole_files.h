// Files appear whole or not at all.
#pragma once

#include <string>
#include <vector>

namespace stepcast {

struct PlannedFile {
    std::string path, text;
};

// Where a file that is renamed into `path` belongs: a link is followed, and what exists but is no regular file (a
// device, a pipe) is refused with ConfigError, since the rename would replace it.
std::string rename_target(const std::string& path);

// Writes every text beside its place, then renames all; on failure removes what it wrote and throws ConfigError.
// Makes missing folders.
void write_whole(const std::vector<PlannedFile>& files);

}  // namespace stepcast
