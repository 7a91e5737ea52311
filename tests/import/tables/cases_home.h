// A home folder with small clusters under the names that case rows are matched to.
#pragma once

#include "tests/model/files.h"

namespace stepcast {

class CasesHome {
public:
    CasesHome() : home_(folder_.path() + "/home") {
        const auto clusters =
            std::filesystem::path(folder_.path()) / "home" / "model" / "presets" / "clusters";
        std::filesystem::create_directories(clusters);
        add(clusters, "dgx-a100", "A100-SXM", "80 GiB", false);
        add(clusters, "dgx-h100", "H100-SXM", "80 GiB", true);
        add(clusters, "b200-x8", "B200", "180 GiB", true);
    }
    const TestFolder& folder() const { return folder_; }

private:
    static void add(const std::filesystem::path& clusters, const std::string& name,
                    const std::string& device, const std::string& memory, bool fp8) {
        std::ofstream(clusters / (name + ".toml"))
            << "name = \"" << name
            << "\"\nsource = \"made up\"\nnodes = 1\ngpus_per_node = 8\n[gpu]\nname = \"" << device
            << "\"\nsms = 100\nmemory = \"" << memory
            << "\"\nmemory_bandwidth = \"2 TB/s\"\n[gpu.peak]\n"
            << "fp32 = \"50 TFLOP/s\"\ntf32 = \"150 TFLOP/s\"\nfp16 = \"300 TFLOP/s\"\nbf16 = "
               "\"300 TFLOP/s\"\n"
            << (fp8 ? "fp8 = \"600 TFLOP/s\"\n" : "")
            << "[link.intra]\nbandwidth = \"200 GB/s\"\nlatency = \"5 us\"\n"
            << "[link.inter]\nbandwidth = \"20 GB/s\"\nlatency = \"10 us\"\n";
    }

    TestFolder folder_;
    TestHome home_;
};

}  // namespace stepcast
