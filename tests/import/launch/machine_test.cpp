#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "import/machine/machine.h"
#include "import/machine/nccl_topology.h"
#include "import/machine/node_listings.h"
#include "import/machine/smi_listings.h"
#include "measured/read.h"
#include "model/base/whole_files.h"
#include "model/experiment.h"
#include "tests/import/launch/shared_configs.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

// Eight GPUs on a switch would be long; four with the header underlined and the last two columns
// glued.
const std::string four =
    "$ nvidia-smi topo -m\n\t\033[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA "
    "Affinity\033[0m\n"
    "GPU0\t X \tNV18\tNV18\tNV18\tPXBNODE\t0-31\t0\nGPU1\tNV18\t X "
    "\tNV18\tNV18\tPXB\tNODE\t0-31\t0\n"
    "GPU2\tNV18\tNV18\t X \tNV18\tNODE\tSYS\t32-63\t1\nGPU3\tNV18\tNV18\tNV18\t X "
    "\tNODE\tSYS\t32-63\t1\n"
    "NIC0\tPXB\tPXB\tNODE\tNODE\t X \tSYS\t\t\t\nNIC Legend:\n  NIC0: mlx5_0\n";

Machine matrix(const std::string& text) {
    Machine m;
    read_topology_matrix(plain_utf8(text), "topo.txt", m);
    return m;
}

}  // namespace

TEST_CASE("a matrix of links is read through colours, glued cells and missing fields") {
    const Machine m = matrix(four);
    CHECK(m.gpus == 4);
    CHECK(m.nvlinks == 18);
    CHECK_FALSE(m.paired());
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

// A virtual machine shows no switch: its NICs stand at the host bridge. Cards joined in pairs by as
// many links as A100 has are several kinds of card.
TEST_CASE("a matrix with a link down says so") {
    std::string text = four;
    CHECK(matrix(text).notes.empty());
    text.replace(text.find("NV18", text.find("GPU0\t X")), 4, "NV17");
    const Machine m = matrix(text);
    CHECK(m.nvlinks == 18);
    REQUIRE(m.notes.size() == 1);
    CHECK_THAT(m.notes[0], Contains("NV17 only"));
}

// nvidia-smi and lspci speak of no links: a board of SXM modules keeps its preset's, and is not
// taken for cards.
TEST_CASE("lists of devices leave the links to the preset, and contradictions are said") {
    const std::string log = "<nvidia_smi_log>" + [] {
        std::string gpus;
        for (int i = 0; i < 4; ++i)
            gpus +=
                "<gpu><product_name>NVIDIA A100-SXM4-80GB</product_name><mig_mode><current_mig>" +
                std::string(i == 3 ? "Enabled" : "Disabled") +
                "</current_mig></mig_mode><fb_memory_usage><total>81920 "
                "MiB</total></fb_memory_usage></gpu>";
        return gpus;
    }() + "</nvidia_smi_log>";
    Machine m;
    read_nvidia_smi(log, "q.xml", m);
    CHECK(m.gpus == 4);
    CHECK_FALSE(m.links_told);
    REQUIRE(m.notes.size() == 1);
    CHECK_THAT(m.notes[0], Contains("MIG parts 1 of the GPUs"));
    CHECK_THAT(cluster_of_machine(m, "node", "").text, Contains("fabric = \"nvswitch\""));
    read_lspci(
        "07:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev "
        "a1)\n",
        "lspci.txt", m);
    CHECK_THAT(m.notes.back(), Contains("1 GPUs, where another file has 4"));
}

TEST_CASE("a matrix without switches, and cards in pairs") {
    const Machine vm = matrix(
        "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tNV12\tPHB\tSYS\t0-7\nGPU1\tNV12\t X "
        "\tPHB\tSYS\t0-7\n");
    CHECK(vm.nics == 1);
    CHECK(vm.other_nics == 1);
    REQUIRE(vm.notes.size() == 1);
    CHECK_THAT(vm.notes[0], Contains("the 1 joined by PHB are taken"));
    const Machine other_socket = matrix(
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV18\tSYS\t0-7\nGPU1\tNV18\t X \tSYS\t0-7\n");
    CHECK(other_socket.nics == 1);
    REQUIRE(other_socket.notes.size() == 1);
    CHECK_THAT(other_socket.notes[0], Contains("the 1 joined by SYS are taken"));
    const auto report_of = [](const std::string& text, const char* gpu) {
        std::string said;
        for (const auto& line : cluster_of_machine(matrix(text), "x", gpu).report)
            said += line + "\n";
        return said;
    };
    const std::string alone = "\tGPU0\tGPU1\nGPU0\tX\tNV18\nGPU1\tNV18\tX\n";
    CHECK_THAT(
        report_of(alone, "H100"),
        Contains("assumed: a NIC of 50 GB/s for each GPU; the files name none; network.nics"));
    CHECK_THAT(report_of(alone, "A100"),
               Contains("warning: 18 NVLinks of a GPU, where A100-SXM4-80GB has 12"));
    CHECK_THAT(report_of(alone, "H100"), !Contains("NVLinks of a GPU"));
    CHECK_THAT(report_of(alone, "L40S"),
               Contains("warning: 18 NVLinks of a GPU, where L40S has 0"));
    const std::string apart = "\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n";
    CHECK_THAT(report_of(apart, "H100"), Contains("warning: 0 NVLinks of a GPU, where H100"));
    CHECK_THAT(report_of(apart, "L40S"), !Contains("NVLinks of a GPU"));
    const char* const pairs =
        "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tNV12\tSYS\tSYS\nGPU1\tNV12\tX\tSYS\tSYS\nGPU2\tSYS\tSYS"
        "\tX\tNV12\nGPU3\tSYS\tSYS\tNV12\tX\n";
    CHECK_THAT(complaint([&] { cluster_of_machine(matrix(pairs), "x", ""); }),
               Contains("which GPU is not stated"));
    const TestFolder folder;
    const auto c = read_cluster(
        folder.write("nvl.toml", cluster_of_machine(matrix(pairs), "nvl", "NVIDIA H100 NVL").text));
    CHECK(c.gpu.memory_bandwidth == BytesPerSecond(3.9e12));
    CHECK(c.fabric == Fabric::nvlink_pairs);
}

// NV18 of H100 is 18 x 25 GB/s; four GPUs are no DGX, so its constants are priors.
TEST_CASE("a machine becomes a cluster: datasheet, links, and constants or priors") {
    const TestFolder folder;
    CHECK_THAT(complaint([] { cluster_of_machine(matrix(four), "x", ""); }),
               Contains("expected --gpu NAME"));
    CHECK_THAT(complaint([] { cluster_of_machine(matrix(four), "x", "H1OO"); }),
               Contains("no preset has its datasheet"));
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
        "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\"><pci "
        "busid=\"1\" class=\"0x060400\">"
        "<pci busid=\"2\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu "
        "dev=\"0\" sm=\"80\" rank=\"0\">"
        "<nvlink target=\"fffffff:ffff:ff\" count=\"12\" tclass=\"0x068000\"/></gpu></pci>"
        "<pci busid=\"3\" class=\"0x020700\"><nic><net name=\"mlx5_0\" "
        "speed=\"200000\"/></nic></pci></pci></cpu>"
        "<cpu numaid=\"1\"/></system>";
    Machine m;
    read_nccl_topology(topology, "t.xml", m);
    CHECK(std::tuple(m.gpus, m.sm, m.nvlinks, m.nics, m.numa_nodes) == std::tuple(1, 80, 12, 1, 2));
    CHECK(m.nic == BytesPerSecond(25e9));
    CHECK(m.pcie == BytesPerSecond(24e9));
    CHECK(m.socket == BytesPerSecond(16e9));
    Machine none;
    CHECK_THAT(complaint([&] { read_nccl_topology("<graphs version=\"1\"/>", "g.xml", none); }),
               Contains("chosen rings"));
    std::string many = "<system><gpu>";
    for (int i = 0; i < 2; ++i) many += "<nvlink count=\"2147483647\"/>";
    CHECK(complaint([&] { read_nccl_topology(many + "</gpu></system>", "m.xml", none); }) ==
          "m.xml: 4294967294 NVLinks of a GPU; expected at most 1000");
    CHECK_THAT(complaint([&] { read_nccl_topology("<system><cpu>", "t.xml", none); }),
               Contains("t.xml:1: "));
    std::string deep = "<system>";
    for (int i = 0; i < 100; ++i) deep += "<pci>";
    for (int i = 0; i < 100; ++i) deep += "</pci>";
    CHECK_THAT(complaint([&] { read_nccl_topology(deep + "</system>", "d.xml", none); }),
               Contains("nested deeper"));
    const std::string bomb =
        "<!DOCTYPE a [<!ENTITY x \"xxxxxxxxxx\"><!ENTITY y \"&x;&x;&x;\">]><system>&y;</system>";
    CHECK_THAT(complaint([&] { read_nccl_topology(bomb, "b.xml", none); }),
               Contains("no GPU in it"));
    Machine smi;
    read_nvidia_smi(
        "<nvidia_smi_log><gpu><product_name>NVIDIA "
        "B200</product_name><fb_memory_usage><total>183359 MiB</total>"
        "</fb_memory_usage></gpu></nvidia_smi_log>",
        "s.xml", smi);
    CHECK(smi.gpu == "NVIDIA B200");
    CHECK(smi.memory == Bytes(183359.0 * 1048576));
}

// The RTX 3090 (10de:2204) was never measured: a nameplate has its datasheet. sm 86 alone is A40,
// A10, A6000 or RTX 3090.
TEST_CASE("a device without a preset gets its datasheet and priors by its PCI number or name") {
    const TestFolder folder;
    const auto node = [](const std::string& device) {
        Machine m;
        read_nccl_topology(
            "<system version=\"1\"><cpu numaid=\"0\"><pci class=\"0x030000\" vendor=\"0x10de\"" +
                device +
                " link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" "
                "sm=\"86\"/></pci></cpu></system>",
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
    CHECK_THAT(complaint([&] { cluster_of_machine(node(""), "x", ""); }),
               Contains("which GPU is not stated (0 NVLinks, sm 86)"));
    CHECK(read_cluster(
              folder.write("a.toml", cluster_of_machine(node(""), "x", "NVIDIA RTX A6000").text))
              .gpu.sms == 84);
    CHECK_THAT(complaint([&] { cluster_of_machine(node(""), "x", "Voodoo 2"); }),
               Contains("no preset has its datasheet"));
}

// 8 links of 25 GB/s a GPU; sm 90: NICs of 400 Gb/s.
TEST_CASE("a device that no file describes is a node of eight by its datasheet") {
    const TestFolder folder;
    const auto file = cluster_of_machine(usual_node(), "h800", "NVIDIA H800");
    const auto c = read_cluster(folder.write("h800.toml", file.text));
    CHECK(std::tuple(c.gpu.name, c.fabric, c.gpus_per_node, c.network.nics, c.network.rails) ==
          std::tuple("H800", Fabric::nvswitch, 8, 8, true));
    CHECK(std::pair(c.intra.bandwidth, c.inter.bandwidth) ==
          std::pair(BytesPerSecond(200e9), BytesPerSecond(50e9)));
    CHECK_THAT(fmt::format("{}", fmt::join(file.report, "\n")),
               Contains("assumed: the links of h800-x8; no file states it") &&
                   Contains("assumed: a node of 8"));
}

namespace {

// A matrix of these links, row by row above the diagonal.
std::string matrix_text(int gpus, const std::vector<int>& joints) {
    Machine m;
    m.gpus = gpus;
    m.joints.assign(joints.begin(), joints.end());
    std::string text;
    for (int g = 0; g < gpus; ++g) text += fmt::format("\tGPU{}", g);
    text += "\tCPU Affinity\n";
    for (int a = 0; a < gpus; ++a) {
        text += fmt::format("GPU{}", a);
        for (int b = 0; b < gpus; ++b)
            text += a == b              ? "\t X "
                    : m.joint(a, b) > 0 ? fmt::format("\tNV{}", m.joint(a, b))
                                        : "\tSYS";
        text += "\t0-15\n";
    }
    return text;
}

struct Read {
    Cluster cluster;
    std::string report;
};
Read cluster_of(const Machine& machine, const char* gpu) {
    const TestFolder folder;
    const auto file = cluster_of_machine(machine, "c", gpu);
    return {read_cluster(folder.write("c.toml", file.text)),
            fmt::format("{}", fmt::join(file.report, "\n"))};
}

const std::vector<int> cube{1, 1, 2, 2, 0, 0, 0, 2, 1, 0, 2, 0, 0, 2,
                            0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 2, 2, 1, 2};

}  // namespace

// V100: 6 x 25 = 150 a GPU, 25 or 50 a pair; the cube is the preset's, so its constants apply. Half
// of a board has four of the six.
TEST_CASE("a cube of direct links is a mesh, by its device and by its links alone") {
    for (const char* gpu : {"V100", ""}) {
        const Read read = cluster_of(matrix(matrix_text(8, cube)), gpu);
        CHECK(read.cluster.fabric == Fabric::nvlink_mesh);
        CHECK(read.cluster.intra.bandwidth == BytesPerSecond(150e9));
        CHECK(mesh_bandwidth(read.cluster, 0, 1) == BytesPerSecond(25e9));
        CHECK(mesh_bandwidth(read.cluster, 0, 4) == BytesPerSecond(50e9));
        CHECK(mesh_bandwidth(read.cluster, 0, 5) == BytesPerSecond(0));
        CHECK_THAT(read.report, Contains("links: direct, without a switch, between 16 of 28 pairs "
                                         "of GPUs: 25 GB/s to 50 GB/s a pair, 150 GB/s a GPU; "
                                         "others reach each other over a third GPU"));
        CHECK_THAT(read.report, !Contains("warning") && Contains("constants: those of dgx-v100"));
    }
    const Read half = cluster_of(matrix(matrix_text(4, {1, 1, 2, 2, 1, 2})), "V100");
    CHECK(half.cluster.intra.bandwidth == BytesPerSecond(125e9));
    CHECK(mesh_bandwidth(half.cluster, 0, 3) == BytesPerSecond(50e9));
    CHECK_THAT(half.report, !Contains("warning"));
}

// Two boards of four A100 (NV4) in one node: 300 inside, the host between. Pairs that are no
// neighbours. H200 NVL: bridges of four, 18 links. The same NV# behind a switch: eight H100 would
// have 7 x 18 links.
TEST_CASE(
    "islands, bridges and pairs out of order are direct links too; too many lead to a switch") {
    std::vector<int> boards;
    for (int a = 0; a < 8; ++a)
        for (int b = a + 1; b < 8; ++b) boards.push_back(a / 4 == b / 4 ? 4 : 0);
    const Read two = cluster_of(matrix(matrix_text(8, boards)), "A100");
    CHECK(two.cluster.fabric == Fabric::nvlink_mesh);
    CHECK(std::pair(two.cluster.intra.bandwidth, two.cluster.intra.host_bandwidth) ==
          std::pair(BytesPerSecond(300e9), BytesPerSecond(24e9)));
    CHECK_THAT(two.report, Contains("assumed: PCIe 24 GB/s") &&
                               Contains("others reach each other through the host"));
    const Read crossed = cluster_of(matrix(matrix_text(4, {0, 12, 0, 0, 12, 0})), "A100 PCIe");
    CHECK(crossed.cluster.fabric == Fabric::nvlink_mesh);
    CHECK(mesh_bandwidth(crossed.cluster, 0, 2) == BytesPerSecond(300e9));
    CHECK(crossed.cluster.intra.host_bandwidth > BytesPerSecond(0));
    CHECK(cluster_of(matrix(matrix_text(4, {12, 0, 0, 0, 0, 12})), "A100 PCIe").cluster.fabric ==
          Fabric::nvlink_pairs);
    const Read bridged = cluster_of(matrix(matrix_text(4, {6, 6, 6, 6, 6, 6})), "H200 NVL");
    CHECK(bridged.cluster.fabric == Fabric::nvlink_mesh);
    CHECK(bridged.cluster.intra.bandwidth == BytesPerSecond(450e9));
    const Read pair = cluster_of(matrix(matrix_text(2, {4})), "A100");
    CHECK(std::pair(pair.cluster.fabric, pair.cluster.intra.bandwidth) ==
          std::pair(Fabric::nvlink_mesh, BytesPerSecond(100e9)));
    const Read switched = cluster_of(matrix(matrix_text(8, std::vector<int>(28, 18))), "H100");
    CHECK(std::pair(switched.cluster.fabric, switched.cluster.intra.bandwidth) ==
          std::pair(Fabric::nvswitch, BytesPerSecond(450e9)));
    CHECK(cluster_of(matrix(matrix_text(4, std::vector<int>(6, 8))), "H800").cluster.fabric ==
          Fabric::nvswitch);
}

// Two boards of four A100, each with a switch: NV12 to the three others of a board, of which a GPU
// has 12 in all, so 4 links = 100 GB/s a pair and 300 GB/s a GPU; between the boards the host. Two
// boards of three H100: 18 / 2 = 9. Where the groups overlap, no switches of islands can be it.
TEST_CASE("islands with a switch each are no switch of all GPUs") {
    std::vector<int> boards, three, overlapping;
    for (int a = 0; a < 8; ++a)
        for (int b = a + 1; b < 8; ++b) boards.push_back(a / 4 == b / 4 ? 12 : 0);
    for (int a = 0; a < 6; ++a)
        for (int b = a + 1; b < 6; ++b) three.push_back(a / 3 == b / 3 ? 18 : 0);
    for (int a = 0; a < 4; ++a)
        for (int b = a + 1; b < 4; ++b) overlapping.push_back(b - a < 3 ? 12 : 0);
    const Read two = cluster_of(matrix(matrix_text(8, boards)), "A100");
    CHECK(two.cluster.fabric == Fabric::nvlink_mesh);
    CHECK(two.cluster.intra.bandwidth == BytesPerSecond(300e9));
    CHECK(mesh_bandwidth(two.cluster, 4, 6) == BytesPerSecond(100e9));
    CHECK(mesh_bandwidth(two.cluster, 3, 4) == BytesPerSecond(0));
    CHECK(two.cluster.intra.host_bandwidth == BytesPerSecond(24e9));
    CHECK_THAT(two.report, Contains("islands") && !Contains("warning"));
    const Read odd = cluster_of(matrix(matrix_text(6, three)), "H100");
    CHECK(mesh_bandwidth(odd.cluster, 0, 2) == BytesPerSecond(225e9));
    const Read none = cluster_of(matrix(matrix_text(4, overlapping)), "A100");
    CHECK(none.cluster.fabric == Fabric::nvswitch);
    CHECK_THAT(none.report, Contains("taken as one switch"));
}

namespace {

// NCCL's topology of GPUs in a row whose links lead to each other: `links` of each pair, as
// elements `element`.
std::string topology_text(int gpus, const std::vector<int>& joints, const std::string& element,
                          const std::string& pci, const std::string& gpu) {
    Machine m;
    m.gpus = gpus;
    m.joints.assign(joints.begin(), joints.end());
    std::string text =
        "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">";
    for (int a = 0; a < gpus; ++a) {
        text += fmt::format(
            "<pci busid=\"0000:{:02x}:00.0\" {} link_speed=\"16.0 GT/s PCIe\" "
            "link_width=\"16\"><gpu dev=\"{}\" {}>",
            0xa0 + a, pci, a, gpu);
        for (int b = 0; b < gpus; ++b)
            if (m.joint(a, b) > 0)
                text += fmt::format(
                    "<{} target=\"0000:{:02X}:00.0\" count=\"{}\" tclass=\"0x030200\"/>", element,
                    0xa0 + b, m.joint(a, b));
        text += "</gpu></pci>";
    }
    return text + "</cpu></system>";
}

Machine topology(const std::string& text) {
    Machine m;
    read_nccl_topology(text, "t.xml", m);
    return m;
}

}  // namespace

// No element of the file joins two GPUs, so that there are no pairs to look at.
TEST_CASE("GPUs that nothing joins are in no islands") {
    const Machine m = topology(topology_text(
        2, {0}, "nvlink", R"(class="0x030000" vendor="0x10de" device="0x2204")", R"(sm="86")"));
    CHECK(m.joints.empty());
    CHECK_THAT(cluster_of_machine(m, "gaming", "").text, Contains("pcie"));
}

// The same machines as their matrices, by the addresses of NCCL's file (either case of letters).
TEST_CASE("NCCL's topology tells direct links by the addresses of the GPUs") {
    const std::string volta = R"(class="0x030200" vendor="0x10de" device="0x1db5")",
                      cards = R"(class="0x030200" vendor="0x10de" device="0x20b5")";
    const Read read =
        cluster_of(topology(topology_text(8, cube, "nvlink", volta, "sm=\"70\"")), "");
    CHECK(read.cluster.fabric == Fabric::nvlink_mesh);
    CHECK(read.cluster.intra.bandwidth == BytesPerSecond(150e9));
    CHECK(mesh_bandwidth(read.cluster, 2, 3) == BytesPerSecond(50e9));
    CHECK_THAT(read.report, Contains("6 NVLinks a GPU to other GPUs") && !Contains("warning"));
    const Read crossed = cluster_of(
        topology(topology_text(4, {0, 12, 0, 0, 12, 0}, "nvlink", cards, "sm=\"80\"")), "");
    CHECK(crossed.cluster.fabric == Fabric::nvlink_mesh);
    CHECK(crossed.cluster.intra.host_bandwidth == BytesPerSecond(24e9));
    CHECK(cluster_of(topology(topology_text(4, {12, 0, 0, 0, 0, 12}, "nvlink", cards, "sm=\"80\"")),
                     "")
              .cluster.fabric == Fabric::nvlink_pairs);
}

// RCCL's own elements, classes and numbers: xgmi, 0x038000 or 0x120000, an sm that is none of
// NVIDIA's. MI300X: 64 GB/s a link.
TEST_CASE("RCCL's topology and rocm-smi tell GPUs that xGMI joins") {
    for (const char* kind : {"0x038000", "0x120000"}) {
        const std::string pci =
            fmt::format("class=\"{}\" vendor=\"0x1002\" device=\"0x74a1\"", kind);
        const Read three = cluster_of(
            topology(topology_text(3, {1, 1, 1}, "xgmi", pci, R"(sm="90" gcn="gfx942")")), "");
        CHECK(std::tuple(three.cluster.gpus_per_node, three.cluster.fabric,
                         three.cluster.gpu.name) == std::tuple(3, Fabric::nvlink_mesh, "MI300X"));
        CHECK(three.cluster.intra.bandwidth == BytesPerSecond(128e9));
        CHECK_THAT(three.report, Contains("2 xGMI links a GPU to other GPUs"));
    }
    const std::string smi =
        "===== Hops between two GPUs =====\n       GPU0  GPU1  GPU2\nGPU0   0     1     1\nGPU1   "
        "1     0     2\nGPU2   1     2     0\n\n"
        "===== Link Type between two GPUs =====\n       GPU0  GPU1  GPU2\nGPU0   0     XGMI  "
        "PCIE\nGPU1   XGMI  0     XGMI\nGPU2   PCIE  XGMI  0\n\n"
        "===== Numa Nodes =====\nGPU[0] : (Topology) Numa Node: 0\n";
    const std::string amd =
        "LINK TYPE TABLE:\n             0000:0c:00.0 0000:22:00.0\n0000:0c:00.0 SELF         "
        "XGMI\n0000:22:00.0 XGMI         SELF\n\nNUMA BW TABLE:\n";
    const TestFolder folder;
    for (const auto& text : {smi, amd})
        CHECK(recognise_foreign(folder.write("r.txt", text)) == ForeignFormat::rocm_smi);
    Machine m, two;
    read_rocm_smi(smi, "r.txt", m);
    // 1 and 2 in two hops
    CHECK(std::pair(m.gpus, m.joints) == std::pair(3, std::vector<double>{1, 0, 0}));
    read_rocm_smi(amd, "a.txt", two);
    const Read read = cluster_of(two, "MI300X");
    CHECK(std::pair(read.cluster.gpus_per_node, read.cluster.intra.bandwidth) ==
          std::pair(2, BytesPerSecond(64e9)));
    CHECK_THAT(read.report, Contains("one xGMI link between each two GPUs assumed"));
    CHECK_THAT(complaint([&] {
                   read_rocm_smi("Link Type between two GPUs\n GPU0 GPU1\nGPU0 0 XGMI\n", "r.txt",
                                 m);
               }),
               Contains("1 rows below \"Link Type between two GPUs\" for 2 GPUs"));
}

// The table by itself, -L and -q as text; MI300X's other listings, network cards and processors
// tell no machine and are named.
TEST_CASE(
    "listings of nvidia-smi as text tell devices; other listings are named for what they are") {
    const std::string table =
        "| NVIDIA-SMI 535.1   Driver Version: 535.1   CUDA Version: 12.2 |\n"
        "|   0  NVIDIA A100-SXM4-80GB   On  | 00000000:07:00.0 Off |                    0 |\n| N/A "
        "  31C    P0    61W / 400W |      3MiB / 81920MiB |      0%      Default |\n"
        "|   1  NVIDIA A100-SXM4-80GB   On  | 00000000:0F:00.0 Off |                    0 |\n| N/A "
        "  31C    P0    61W / 400W |      3MiB / 81920MiB |      0%      Default |\n";
    const std::string list =
        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\nGPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-2)\n";
    const std::string query =
        "==============NVSMI LOG==============\nAttached GPUs                             : 2\n"
        "GPU 00000000:07:00.0\n    Product Name                          : NVIDIA A100-SXM4-80GB\n "
        "   FB Memory Usage\n"
        "        Total                             : 81920 MiB\n        Reserved : 1 MiB\n    BAR1 "
        "Memory Usage\n        Total : 131072 MiB\n"
        "GPU 00000000:0F:00.0\n    Product Name                          : NVIDIA A100-SXM4-80GB\n";
    const TestFolder folder;
    for (const auto& text : {table, list, query}) {
        CHECK(recognise_foreign(folder.write("s.txt", text)) == ForeignFormat::nvidia_smi);
        Machine m;
        read_nvidia_smi(text, "s.txt", m);
        CHECK(std::tuple(m.gpus, m.gpu, m.links_told) ==
              std::tuple(2, "NVIDIA A100-SXM4-80GB", false));
        CHECK(m.memory == (text == list ? Bytes(0) : Bytes(81920.0 * 1048576)));
    }
    CHECK(recognise_foreign(folder.write("train.log", table + "iteration 1/10 | loss: 2.3\n")) ==
          ForeignFormat::none);
    CHECK_THAT(other_listing("CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n"),
               Contains("ibstat"));
    CHECK_THAT(other_listing("hca_id:\tmlx5_0\n\ttransport:\t\tInfiniBand (0)\n"),
               Contains("ibv_devinfo"));
    CHECK_THAT(other_listing(
                   "==== ROCm System Management Interface ====\nGPU  Temp  AvgPwr\n0  40c 100W\n"),
               Contains("rocm-smi without --showtopo"));
    CHECK_THAT(
        other_listing(" \tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\nLegend:\n  OK   = Status Ok\n"),
        Contains("topo -p2p"));
    CHECK_THAT(other_listing("Thread(s) per core: 2\nNUMA node(s):  2\n"), Contains("lscpu"));
    CHECK(other_listing("a story of two GPUs").empty());
    CHECK_THAT(
        complaint(
            [] { matrix("$ nvidia-smi topo -mp\n\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n"); }),
        Contains("nvidia-smi topo -mp, which leaves NVLinks out; expected nvidia-smi topo -m"));
}

// A node of another size keeps its GPUs' share of the NICs (8 for 8: 1, 3), unless it states a
// number; a node of one GPU has one.
TEST_CASE("a node of fewer GPUs has fewer NICs") {
    const auto nics = [](std::vector<Override> set) {
        set.push_back({"cluster.preset", "dgx-h100"});
        set.push_back({"cluster.nodes", "2"});
        return read_unchecked_experiment("moe_layer_alltoall", set).cluster.network.nics;
    };
    CHECK(nics({}) == 8);
    CHECK(nics({{"cluster.gpus_per_node", "1"}}) == 1);
    CHECK(nics({{"cluster.gpus_per_node", "3"}}) == 3);
    CHECK(nics({{"cluster.gpus_per_node", "1"}, {"cluster.network.nics", "8"}}) == 8);
    CHECK(read_cluster("h100-x1").network.nics == 1);
    CHECK(read_cluster("h200-x1").network.nics == 1);
}

// Four A100 with four links to each other use all twelve; behind a switch NV12 are the same twelve.
TEST_CASE("links of a board without a switch add up") {
    const auto m = matrix(
        "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tNV4\tNV4\tNV4\nGPU1\tNV4\tX\tNV4\tNV4\n"
        "GPU2\tNV4\tNV4\tX\tNV4\nGPU3\tNV4\tNV4\tNV4\tX\n");
    const TestFolder folder;
    CHECK(read_cluster(folder.write("c.toml", cluster_of_machine(m, "c", "A100").text))
              .intra.bandwidth == BytesPerSecond(300e9));
    CHECK_THAT(cluster_of(m, "A100").report,
               Contains("between 6 of 6 pairs of GPUs: 100 GB/s a pair, 300 GB/s a GPU") &&
                   !Contains("warning"));
}

TEST_CASE("lspci settles the device and leaves the links to others") {
    const std::string text =
        "06:00.0 Bridge: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev a1)\n"
        "18:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev "
        "a1)\n"
        "1a:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] "
        "[15b3:1021]\n"
        "2a:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev "
        "a1)\n";
    Machine m;
    read_lspci(text, "lspci.txt", m);
    CHECK(std::tuple(m.gpus, m.gpu, m.pci, m.nics, m.links_told) ==
          std::tuple(2, "H100 SXM5 80GB", "10de:2330", 1, false));
    Machine both = matrix(four);
    read_lspci(text, "lspci.txt", both);
    CHECK(std::tuple(both.gpus, both.gpu, both.nvlinks, both.nics, both.links_told) ==
          std::tuple(4, "H100 SXM5 80GB", 18, 1, true));
    CHECK_THAT(
        complaint([&] { read_lspci("00:1f.0 ISA bridge: Intel Corporation C621\n", "l.txt", m); }),
        Contains("no GPU"));
    const TestFolder folder;
    CHECK(recognise_foreign(folder.write("l.txt", text)) == ForeignFormat::lspci);
}

TEST_CASE("real descriptions of machines read as their table says") {
    if (configs_are_absent()) return;
    const auto configs = shared_configs();
    const auto text = [&](const std::string& name) {
        return read_text(configs + "/cluster/" + name, "a description");
    };
    const auto dgx = matrix(text("topo_8xa100_12nic.txt"));
    CHECK(std::tuple(dgx.gpus, dgx.nvlinks, dgx.nics, dgx.other_nics, dgx.numa_nodes) ==
          std::tuple(8, 12, 8, 4, 4));
    const auto hopper = matrix(text("topo_8xnv18_9nic_ansi.txt"));
    CHECK(std::tuple(hopper.gpus, hopper.nvlinks, hopper.nics, hopper.other_nics,
                     hopper.numa_nodes) == std::tuple(8, 18, 8, 1, 2));
    const auto pairs = matrix(text("topo_4gpu_pairs.txt"));
    CHECK(std::tuple(pairs.gpus, pairs.paired(), pairs.nvlinks, pairs.nics) ==
          std::tuple(4, true, 4, 0));
    Machine gaming;
    read_nccl_topology(text("nccl_topo_8x3090.xml"), "t.xml", gaming);
    CHECK(std::tuple(gaming.gpus, gaming.sm, gaming.nvlinks, gaming.nics, gaming.numa_nodes) ==
          std::tuple(8, 86, 0, 1, 2));
    CHECK(gaming.pcie == BytesPerSecond(24e9));
    CHECK(gaming.nic == BytesPerSecond(7e9));
    CHECK(gaming.pci == "10de:2204");
    Machine azure;
    read_nccl_topology(text("nccl_topo_azure_ndv5.xml"), "t.xml", azure);
    CHECK(std::tuple(azure.gpus, azure.nics, azure.links_told) == std::tuple(8, 8, false));
    CHECK(azure.pcie == BytesPerSecond(48e9));
    CHECK_THAT(
        complaint([&] { read_nccl_topology(text("nccl_graph_8x3090.xml"), "g.xml", azure); }),
        Contains("chosen rings"));
}

// The memory is part of a name: 40 and 80 GB are two A100, 16 and 32 GB two V100, as cards too.
// The nameplates have what a process sees, a little less than the name says.
TEST_CASE("a GPU of another memory is another device") {
    const TestFolder folder;
    const auto imported = [&](const std::string& gpu) {
        return read_cluster(folder.write("n.toml", cluster_of_machine(usual_node(), "n", gpu).text))
            .gpu;
    };
    const auto gib = [&](const std::string& gpu) {
        return std::ceil(imported(gpu).memory / Bytes(1 << 30));
    };
    for (const char* gpu : {"A100-40GB", "A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "a100 40 GB",
                            "A100_40G", "A100-PCIE-40GB", "A100 PCIe 40GB"}) {
        INFO(gpu);
        CHECK(gib(gpu) == 40);
        CHECK(imported(gpu).memory_bandwidth == BytesPerSecond(1.555e12));
    }
    for (const char* gpu : {"A100", "A100-80GB", "NVIDIA A100-SXM4-80GB", "A100 80GB PCIe"})
        CHECK(gib(gpu) == 80);
    for (const char* gpu : {"V100-16GB", "Tesla V100-SXM2-16GB"}) CHECK(gib(gpu) == 16);
    CHECK(gib("V100-PCIE-16GB") == 16);
    for (const char* gpu : {"V100", "V100-32GB", "Tesla V100-PCIE-32GB", "V100-SXM3-32GB"})
        CHECK(gib(gpu) == 32);
    CHECK(gib("H100-96GB") == 96);
    CHECK(gib("NVIDIA H100 80GB HBM3") == 80);
    CHECK(imported("H20-141GB").memory_bandwidth == BytesPerSecond(4.8e12));
    for (const char* gpu : {"H100 NVL 94GB", "H200-141GB", "B200-192GB", "B200-180GB", "L40S-48GB",
                            "L4-24GB", "RTX 3090 24GB", "MI300X-192GB"}) {
        INFO(gpu);
        CHECK_NOTHROW(imported(gpu));
    }
    for (const char* gpu : {"A100-60GB", "V100-64GB", "H100-64GB", "L40S-24GB", "RTX 4090 48GB",
                            "A800-40GB", "V100-SXM3-16GB"}) {
        INFO(gpu);
        CHECK_THROWS_WITH(imported(gpu), Contains("no datasheet is known of one with"));
    }
}

TEST_CASE("a PCI number and what nvidia-smi says of the memory tell the same variants") {
    const auto listed = [](const std::string& pci) {
        Machine m;
        read_lspci(
            "07:00.0 3D controller [0302]: NVIDIA Corporation Device [" + pci + "] (rev a1)\n",
            "lspci.txt", m);
        const TestFolder folder;
        return read_cluster(folder.write("n.toml", cluster_of_machine(m, "n", "").text)).gpu;
    };
    CHECK(listed("10de:20b0").memory_bandwidth == BytesPerSecond(1.555e12));
    CHECK(listed("10de:20b2").memory_bandwidth == BytesPerSecond(2.039e12));
    CHECK(listed("10de:20f1").memory / Bytes(1 << 30) == Approx(39.39));
    CHECK(listed("10de:1db1").memory / Bytes(1 << 30) == Approx(15.77));
    CHECK(listed("10de:1db6").memory / Bytes(1 << 30) == Approx(31.74));
    Machine m = usual_node();
    m.gpu = "NVIDIA A100";
    m.memory = Bytes(40536.0 * (1 << 20));  // as nvidia-smi reports 40 GB
    const TestFolder folder;
    const Gpu found = read_cluster(folder.write("n.toml", cluster_of_machine(m, "n", "").text)).gpu;
    CHECK(found.memory == m.memory);
    CHECK(found.memory_bandwidth == BytesPerSecond(1.555e12));
    m.memory = Bytes(60e9);  // of nobody: at the usual one's rate, which is said
    const MachineFile odd = cluster_of_machine(m, "n", "");
    CHECK(std::ranges::any_of(odd.report, [](const std::string& line) {
        return line.starts_with("assumed: memory of 60 GB at the rate of");
    }));
}
