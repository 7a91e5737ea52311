#include "translate/machine.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "model/experiment.h"
#include "model/files/whole_files.h"
#include "tests/model/files.h"
#include "tests/translate/shared_configs.h"
#include "translate/translate.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

// Eight GPUs on a switch would be long; four with the header underlined and the last two columns glued.
const std::string four =
    "$ nvidia-smi topo -m\n\t\033[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\033[0m\n"
    "GPU0\t X \tNV18\tNV18\tNV18\tPXBNODE\t0-31\t0\nGPU1\tNV18\t X \tNV18\tNV18\tPXB\tNODE\t0-31\t0\n"
    "GPU2\tNV18\tNV18\t X \tNV18\tNODE\tSYS\t32-63\t1\nGPU3\tNV18\tNV18\tNV18\t X \tNODE\tSYS\t32-63\t1\n"
    "NIC0\tPXB\tPXB\tNODE\tNODE\t X \tSYS\t\t\t\nNIC Legend:\n  NIC0: mlx5_0\n";

Machine matrix(const std::string& text) {
    Machine m;
    read_topology_matrix(text, "topo.txt", m);
    return m;
}

}  // namespace

TEST_CASE("a matrix of links is read through colours, glued cells and missing fields") {
    const Machine m = matrix(four);
    CHECK(m.gpus == 4);
    CHECK(m.nvlinks == 18);
    CHECK_FALSE(m.paired);
    CHECK(m.nics == 1);
    CHECK(m.other_nics == 1);
    CHECK(m.numa_nodes == 2);
    CHECK(complaint([] { matrix("\tGPU0\tGPU1\nGPU0\t X \tNV4\n"); }) ==
          "topo.txt: 1 rows for 2 GPUs; expected the whole matrix of nvidia-smi topo -m");
    CHECK_THAT(complaint([] { matrix("\tGPU0\tGPU1\nGPU0\t X \twhat\nGPU1\tNV1\tX\n"); }),
               Contains("topo.txt:2: column GPU1 of GPU0 is no link"));
    CHECK(complaint([] { matrix("\tGPU0\tGPU1\nGPU0\t X \tNV1001\nGPU1\tNV1001\tX\n"); }) ==
          "topo.txt:2: NV1001 of GPU0; expected at most 1000 NVLinks of a GPU");
}

// A virtual machine shows no switch: its NICs stand at the host bridge. Cards joined in pairs by as many links as A100 has are
// several kinds of card.
TEST_CASE("a matrix with a link down says so") {
    std::string text = four;
    CHECK(matrix(text).notes.empty());
    text.replace(text.find("NV18", text.find("GPU0\t X")), 4, "NV17");
    const Machine m = matrix(text);
    CHECK(m.nvlinks == 18);
    REQUIRE(m.notes.size() == 1);
    CHECK_THAT(m.notes[0], Contains("NV17 only"));
}

// nvidia-smi and lspci speak of no links: a board of SXM modules keeps its preset's, and is not taken for cards.
TEST_CASE("lists of devices leave the links to the preset, and contradictions are said") {
    const std::string log = "<nvidia_smi_log>" + [] {
        std::string gpus;
        for (int i = 0; i < 4; ++i)
            gpus += "<gpu><product_name>NVIDIA A100-SXM4-80GB</product_name><mig_mode><current_mig>" + std::string(i == 3 ? "Enabled" : "Disabled") +
                    "</current_mig></mig_mode><fb_memory_usage><total>81920 MiB</total></fb_memory_usage></gpu>";
        return gpus;
    }() + "</nvidia_smi_log>";
    Machine m;
    read_nvidia_smi(log, "q.xml", m);
    CHECK(m.gpus == 4);
    CHECK_FALSE(m.links_told);
    REQUIRE(m.notes.size() == 1);
    CHECK_THAT(m.notes[0], Contains("MIG parts 1 of the GPUs"));
    CHECK_THAT(cluster_of_machine(m, "node", "").text, Contains("fabric = \"nvswitch\""));
    read_lspci("07:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n", "lspci.txt", m);
    CHECK_THAT(m.notes.back(), Contains("1 GPUs, where another file has 4"));
}

TEST_CASE("a matrix without switches, and cards in pairs") {
    const Machine vm = matrix("\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tNV12\tPHB\tSYS\t0-7\nGPU1\tNV12\t X \tPHB\tSYS\t0-7\n");
    CHECK(vm.nics == 1);
    CHECK(vm.other_nics == 1);
    REQUIRE(vm.notes.size() == 1);
    CHECK_THAT(vm.notes[0], Contains("the 1 joined by PHB are taken"));
    const Machine other_socket = matrix("\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV18\tSYS\t0-7\nGPU1\tNV18\t X \tSYS\t0-7\n");
    CHECK(other_socket.nics == 1);
    REQUIRE(other_socket.notes.size() == 1);
    CHECK_THAT(other_socket.notes[0], Contains("the 1 joined by SYS are taken"));
    const auto report_of = [](const std::string& text, const char* gpu) {
        std::string said;
        for (const auto& line : cluster_of_machine(matrix(text), "x", gpu).report) said += line + "\n";
        return said;
    };
    const std::string alone = "\tGPU0\tGPU1\nGPU0\tX\tNV18\nGPU1\tNV18\tX\n";
    CHECK_THAT(report_of(alone, "H100"), Contains("assumed: a NIC of 50 GB/s for each GPU; the files name none; network.nics"));
    CHECK_THAT(report_of(alone, "A100"), Contains("warning: 18 NVLinks of a GPU, where A100-SXM4-80GB has 12"));
    CHECK_THAT(report_of(alone, "H100"), !Contains("NVLinks of a GPU"));
    CHECK_THAT(report_of(alone, "L40S"), Contains("warning: 18 NVLinks of a GPU, where L40S has 0"));
    const std::string apart = "\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n";
    CHECK_THAT(report_of(apart, "H100"), Contains("warning: 0 NVLinks of a GPU, where H100"));
    CHECK_THAT(report_of(apart, "L40S"), !Contains("NVLinks of a GPU"));
    const char* const pairs = "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tNV12\tSYS\tSYS\nGPU1\tNV12\tX\tSYS\tSYS\nGPU2\tSYS\tSYS\tX\tNV12\nGPU3\tSYS\tSYS\tNV12\tX\n";
    CHECK_THAT(complaint([&] { cluster_of_machine(matrix(pairs), "x", ""); }), Contains("which GPU is not told"));
    const TestFolder folder;
    const auto c = read_cluster(folder.write("nvl.toml", cluster_of_machine(matrix(pairs), "nvl", "NVIDIA H100 NVL").text));
    CHECK(c.gpu.memory_bandwidth == BytesPerSecond(3.9e12));
    CHECK(c.fabric == Fabric::nvlink_pairs);
}

// NV18 of H100 is 18 x 25 GB/s; four GPUs are no DGX, so its constants are priors.
TEST_CASE("a machine becomes a cluster: datasheet, links, and constants or priors") {
    const TestFolder folder;
    CHECK_THAT(complaint([] { cluster_of_machine(matrix(four), "x", ""); }), Contains("expected --gpu NAME"));
    CHECK_THAT(complaint([] { cluster_of_machine(matrix(four), "x", "H1OO"); }), Contains("no preset or nameplate has its datasheet"));
    const auto file = cluster_of_machine(matrix(four), "mine", "NVIDIA H100 80GB HBM3");
    const auto c = read_cluster(folder.write("mine.toml", file.text));
    CHECK(c.gpus_per_node == 4);
    CHECK(c.fabric == Fabric::nvswitch);
    CHECK(c.intra.bandwidth == BytesPerSecond(450e9));
    CHECK(c.network.nics == 1);
    CHECK(c.gpu.peaks[Dtype::bf16] == read_cluster("dgx-h100").gpu.peaks[Dtype::bf16]);
    CHECK_FALSE(c.fitted);
    CHECK(c.noise.step > 0.1);
}

TEST_CASE("XML that describes a machine, and XML that does not") {
    const std::string topology =
        "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\"><pci busid=\"1\" class=\"0x060400\">"
        "<pci busid=\"2\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"80\" rank=\"0\">"
        "<nvlink target=\"fffffff:ffff:ff\" count=\"12\" tclass=\"0x068000\"/></gpu></pci>"
        "<pci busid=\"3\" class=\"0x020700\"><nic><net name=\"mlx5_0\" speed=\"200000\"/></nic></pci></pci></cpu>"
        "<cpu numaid=\"1\"/></system>";
    Machine m;
    read_nccl_topology(topology, "t.xml", m);
    CHECK(std::tuple(m.gpus, m.sm, m.nvlinks, m.nics, m.numa_nodes) == std::tuple(1, 80, 12, 1, 2));
    CHECK(m.nic == BytesPerSecond(25e9));
    CHECK(m.pcie == BytesPerSecond(24e9));
    CHECK(m.socket == BytesPerSecond(16e9));
    Machine none;
    CHECK_THAT(complaint([&] { read_nccl_topology("<graphs version=\"1\"/>", "g.xml", none); }), Contains("chosen rings"));
    std::string many = "<system><gpu>";
    for (int i = 0; i < 2; ++i) many += "<nvlink count=\"2147483647\"/>";
    CHECK(complaint([&] { read_nccl_topology(many + "</gpu></system>", "m.xml", none); }) == "m.xml: 4294967294 NVLinks of a GPU; expected at most 1000");
    CHECK_THAT(complaint([&] { read_nccl_topology("<system><cpu>", "t.xml", none); }), Contains("t.xml:1: "));
    std::string deep = "<system>";
    for (int i = 0; i < 100; ++i) deep += "<pci>";
    for (int i = 0; i < 100; ++i) deep += "</pci>";
    CHECK_THAT(complaint([&] { read_nccl_topology(deep + "</system>", "d.xml", none); }), Contains("nested deeper"));
    const std::string bomb = "<!DOCTYPE a [<!ENTITY x \"xxxxxxxxxx\"><!ENTITY y \"&x;&x;&x;\">]><system>&y;</system>";
    CHECK_THAT(complaint([&] { read_nccl_topology(bomb, "b.xml", none); }), Contains("no GPU in it"));
    Machine smi;
    read_nvidia_smi("<nvidia_smi_log><gpu><product_name>NVIDIA B200</product_name><fb_memory_usage><total>183359 MiB</total>"
                    "</fb_memory_usage></gpu></nvidia_smi_log>", "s.xml", smi);
    CHECK(smi.gpu == "NVIDIA B200");
    CHECK(smi.memory == Bytes(183359.0 * 1048576));
}

// The RTX 3090 (10de:2204) was never measured: a nameplate has its datasheet. sm 86 alone is A40, A10, A6000 or RTX 3090.
TEST_CASE("a device without a preset gets its datasheet and priors by its PCI number or name") {
    const TestFolder folder;
    const auto node = [](const std::string& device) {
        Machine m;
        read_nccl_topology("<system version=\"1\"><cpu numaid=\"0\"><pci class=\"0x030000\" vendor=\"0x10de\"" + device +
                               " link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"86\"/></pci></cpu></system>",
                           "t.xml", m);
        return m;
    };
    const auto file = cluster_of_machine(node(" device=\"0x2204\""), "gaming", "");
    const auto c = read_cluster(folder.write("gaming.toml", file.text));
    CHECK(c.gpu.name == "RTX 3090");
    CHECK(c.gpu.memory_bandwidth == BytesPerSecond(936e9));
    CHECK(c.gpu.peaks[Dtype::bf16] == FlopsPerSecond(71.2e12));
    CHECK(c.fabric == Fabric::pcie);
    CHECK(c.intra.bandwidth == BytesPerSecond(24e9));
    CHECK(c.noise.step > 0.1);
    CHECK_THAT(complaint([&] { cluster_of_machine(node(""), "x", ""); }), Contains("which GPU is not told (0 NVLinks, sm 86)"));
    CHECK(read_cluster(folder.write("a.toml", cluster_of_machine(node(""), "x", "NVIDIA RTX A6000").text)).gpu.sms == 84);
    CHECK_THAT(complaint([&] { cluster_of_machine(node(""), "x", "Voodoo 2"); }), Contains("no preset or nameplate has its datasheet"));
}

// 8 links of 25 GB/s a GPU; sm 90: NICs of 400 Gb/s.
TEST_CASE("a device that no file describes is a node of eight by its datasheet") {
    const TestFolder folder;
    const auto file = cluster_of_machine(usual_node(), "h800", "NVIDIA H800");
    const auto c = read_cluster(folder.write("h800.toml", file.text));
    CHECK(std::tuple(c.gpu.name, c.fabric, c.gpus_per_node, c.network.nics, c.network.rails) ==
          std::tuple("H800", Fabric::nvswitch, 8, 8, true));
    CHECK(std::pair(c.intra.bandwidth, c.inter.bandwidth) == std::pair(BytesPerSecond(200e9), BytesPerSecond(50e9)));
    CHECK_THAT(fmt::format("{}", fmt::join(file.report, "\n")), Contains("assumed: the links of h800-x8; no file tells") && Contains("assumed: a node of 8"));
}

// Four A100 with four links to each other use all twelve; behind a switch NV12 are the same twelve.
TEST_CASE("links of a board without a switch add up") {
    const auto m = matrix("\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tNV4\tNV4\tNV4\nGPU1\tNV4\tX\tNV4\tNV4\n"
                          "GPU2\tNV4\tNV4\tX\tNV4\nGPU3\tNV4\tNV4\tNV4\tX\n");
    const TestFolder folder;
    CHECK(read_cluster(folder.write("c.toml", cluster_of_machine(m, "c", "A100").text)).intra.bandwidth == BytesPerSecond(300e9));
}

TEST_CASE("lspci settles the device and leaves the links to others") {
    const std::string text =
        "06:00.0 Bridge: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev a1)\n"
        "18:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n"
        "1a:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]\n"
        "2a:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n";
    Machine m;
    read_lspci(text, "lspci.txt", m);
    CHECK(std::tuple(m.gpus, m.gpu, m.pci, m.nics, m.links_told) == std::tuple(2, "H100 SXM5 80GB", "10de:2330", 1, false));
    Machine both = matrix(four);
    read_lspci(text, "lspci.txt", both);
    CHECK(std::tuple(both.gpus, both.gpu, both.nvlinks, both.nics, both.links_told) == std::tuple(4, "H100 SXM5 80GB", 18, 1, true));
    CHECK_THAT(complaint([&] { read_lspci("00:1f.0 ISA bridge: Intel Corporation C621\n", "l.txt", m); }), Contains("no GPU"));
    const TestFolder folder;
    CHECK(recognise_foreign(folder.write("l.txt", text)) == ForeignFormat::lspci);
}

TEST_CASE("real descriptions of machines read as their table says") {
    if (configs_are_absent()) return;
    const auto configs = shared_configs();
    const auto text = [&](const std::string& name) { return read_text(configs + "/cluster/" + name, "a description"); };
    const auto dgx = matrix(text("topo_8xa100_12nic.txt"));
    CHECK(std::tuple(dgx.gpus, dgx.nvlinks, dgx.nics, dgx.other_nics, dgx.numa_nodes) == std::tuple(8, 12, 8, 4, 4));
    const auto hopper = matrix(text("topo_8xnv18_9nic_ansi.txt"));
    CHECK(std::tuple(hopper.gpus, hopper.nvlinks, hopper.nics, hopper.other_nics, hopper.numa_nodes) == std::tuple(8, 18, 8, 1, 2));
    const auto pairs = matrix(text("topo_4gpu_pairs.txt"));
    CHECK(std::tuple(pairs.gpus, pairs.paired, pairs.nvlinks, pairs.nics) == std::tuple(4, true, 4, 0));
    Machine gaming;
    read_nccl_topology(text("nccl_topo_8x3090.xml"), "t.xml", gaming);
    CHECK(std::tuple(gaming.gpus, gaming.sm, gaming.nvlinks, gaming.nics, gaming.numa_nodes) == std::tuple(8, 86, 0, 1, 2));
    CHECK(gaming.pcie == BytesPerSecond(24e9));
    CHECK(gaming.nic == BytesPerSecond(7e9));
    CHECK(gaming.pci == "10de:2204");
    Machine azure;
    read_nccl_topology(text("nccl_topo_azure_ndv5.xml"), "t.xml", azure);
    CHECK(std::tuple(azure.gpus, azure.nics, azure.links_told) == std::tuple(8, 8, false));
    CHECK(azure.pcie == BytesPerSecond(48e9));
    CHECK_THAT(complaint([&] { read_nccl_topology(text("nccl_graph_8x3090.xml"), "g.xml", azure); }), Contains("chosen rings"));
}
