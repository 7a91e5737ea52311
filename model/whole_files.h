// Files appear whole or not at all.
#pragma once

#include <string>
#include <vector>

namespace stepcast {

struct PlannedFile {
    std::string path, text;
};

// Writes every text beside its place, then renames all; on failure removes what it wrote and throws ConfigError.
// Makes missing folders.
void write_whole(const std::vector<PlannedFile>& files);

}  // namespace stepcast
