// What tests of files need: the test presets as home folder, and files that are removed with the
// test.
#pragma once

#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/base/errors.h"

namespace stepcast {

std::string test_data();  // the folder tests/data

class TestHome {
public:
    explicit TestHome(const std::string& folder = test_data() + "/home") {
        if (const char* home = std::getenv("STEPCAST_HOME")) before_ = home;
        setenv("STEPCAST_HOME", folder.c_str(), 1);
    }
    ~TestHome() {
        before_.empty() ? unsetenv("STEPCAST_HOME") : setenv("STEPCAST_HOME", before_.c_str(), 1);
    }
    TestHome(const TestHome&) = delete;
    TestHome& operator=(const TestHome&) = delete;

private:
    std::string before_;
};

// A new folder for every use, since ctest runs many cases at the same time; removed at the end.
class TestFolder {
public:
    TestFolder() {
        static int count = 0;
        path_ = std::filesystem::temp_directory_path() /
                ("stepcast-test-" + std::to_string(getpid()) + "-" + std::to_string(count++));
        std::filesystem::create_directories(path_);
    }
    ~TestFolder() { std::filesystem::remove_all(path_); }
    TestFolder(const TestFolder&) = delete;
    TestFolder& operator=(const TestFolder&) = delete;

    [[nodiscard]] std::string path() const { return path_.string(); }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
        return (path_ / name).string();
    }

private:
    std::filesystem::path path_;
};

// The message of the ConfigError that `call` throws, without the folder in its position; "" if it
// throws none.
template <class Call>
std::string complaint(Call call, const std::string& folder = "") {
    try {
        call();
    } catch (const ConfigError& e) {
        std::string what = e.what();
        if (const auto prefix = folder + "/"; !folder.empty())
            for (auto at = what.find(prefix); at != std::string::npos; at = what.find(prefix))
                what.erase(at, prefix.size());
        return what;
    }
    return "";
}

}  // namespace stepcast
