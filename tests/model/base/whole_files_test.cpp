#include "model/base/whole_files.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "model/base/plain_text.h"
#include "tests/model/files.h"

using namespace stepcast;
namespace fs = std::filesystem;

namespace {

std::size_t entries(const std::string& folder) {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a file has no name before it is whole, and takes the place of the one before") {
    const TestFolder folder;
    const std::string path = folder.write("a.txt", "before");
    {
        WholeFile file(path);
        file.write("half");
        CHECK(entries(folder.path()) == 1);
        CHECK(read_text(path, "a text") == "before");
    }
    CHECK(read_text(path, "a text") == "before");
    WholeFile file(path);
    file.write("af");
    file.write("ter");
    file.commit();
    CHECK(read_text(path, "a text") == "after");
    CHECK(entries(folder.path()) == 1);
}

// A file is first written under another name with the number of the process; a killed process may
// have left such a file.
TEST_CASE("what a killed process left does not keep a file from taking its place") {
    const TestFolder folder;
    const std::string path = folder.write("a.txt", "before");
    folder.write("a.txt.part-" + std::to_string(getpid()), "left");
    write_whole({{path, "after"}});
    CHECK(read_text(path, "a text") == "after");
    CHECK(entries(folder.path()) == 1);
}

TEST_CASE("of several files none appears when one cannot be written") {
    const TestFolder folder;
    const std::string taken = folder.path() + "/taken";
    fs::create_directories(taken);
    CHECK(complaint(
              [&] {
                  write_whole({{folder.path() + "/a", "x"}, {taken, "y"}});
              },
              folder.path()) == "taken: cannot be written (is a folder)");
    CHECK_FALSE(fs::exists(folder.path() + "/a"));
}

// A limit on the size of files acts like a full disk: both end a write in the middle.
TEST_CASE("a file that no longer fits leaves what was there") {
    const TestFolder folder;
    const std::string path = folder.write("a.txt", "before");
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit small = before;
    small.rlim_cur = 1000;
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string what = complaint(
        [&] {
            write_whole({{path, std::string(5000, 'x')}});
        },
        folder.path());
    const std::string place = complaint([&] { require_writable(path); }, folder.path());
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(what == "a.txt: cannot be written (File too large)");
    CHECK(place == "a.txt: cannot be written (File too large)");
    CHECK(read_text(path, "a text") == "before");
    CHECK(entries(folder.path()) == 1);
}

TEST_CASE("asking whether a file can be written leaves nothing") {
    const TestFolder folder;
    require_writable(folder.path() + "/below/a.txt");
    CHECK(entries(folder.path() + "/below") == 0);
    const std::string file = folder.write("file", "");
    CHECK(complaint([&] { require_writable(file + "/a.txt"); }, folder.path()) ==
          "file/a.txt: cannot be written (Not a directory)");
}

TEST_CASE("an output under any name of an input is refused") {
    const TestFolder folder;
    const std::string input = folder.write("in.csv", ""), hard = folder.path() + "/hard",
                      soft = folder.path() + "/soft";
    fs::create_hard_link(input, hard);
    fs::create_symlink(input, soft);
    for (const std::string& name : {input, hard, soft, folder.path() + "/./in.csv"})
        CHECK(complaint(
                  [&] {
                      keep_apart({name}, {folder.path() + "/absent", input});
                  },
                  folder.path())
                  .find("is read as in.csv; expected another file to write") != std::string::npos);
    CHECK_NOTHROW(keep_apart({folder.path() + "/out.csv"}, {input}));
}

TEST_CASE("what has no end or keeps a reader waiting is not read") {
    const TestFolder folder;
    const std::string pipe = folder.path() + "/pipe";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(complaint([&] { read_text(pipe, "a text"); }, folder.path()) ==
          "pipe: cannot be read (is no regular file); expected a text");
    CHECK(complaint([] { require_readable("/dev/zero", "a CSV file"); }) ==
          "/dev/zero: cannot be read (is no regular file); expected a CSV file");
    const std::string ten = folder.write("ten", "0123456789");
    CHECK_NOTHROW(require_readable(ten, "a text", 10));
    CHECK(complaint([&] { require_readable(ten, "a text", 9); }, folder.path()) ==
          "ten: cannot be read (10 bytes, at most 9 are read); expected a text");
}

// ESC, BEL, DEL, C1's CSI as one character (c2 9b), a lone continuation byte, an overlong slash and
// a cut character.
TEST_CASE("plain text keeps letters and drops what controls") {
    CHECK(plain_text("19\" rack, \u00fcber \u6f22") == "19\" rack, \u00fcber \u6f22");
    CHECK(plain_text("\u202egnp.exe\u2066 \u2029\u2065") == "?gnp.exe? \u2029\u2065");
    CHECK(plain_text("a\x1b[2Jb\x07\x7f") == "a?[2Jb??");
    CHECK(plain_text("a\xc2\x9b"
                     "31mb") == "a?31mb");
    CHECK(plain_text("\x80 \xc0\xaf \xe6\xbc") == "? ?? ??");
    CHECK(plain_text("two\nlines\r") == "two?lines?");
    CHECK(plain_text("two\nlines\r", "\n") == "two\nlines?");
}

// U+0061, U+00E9, U+20AC and U+1F600 take one to four bytes of UTF-8; the last is the pair D83D
// DE00 in UTF-16. Half a character at an end is dropped.
TEST_CASE(
    "text in UTF-16, of either order, with marks and both kinds of ends of lines becomes UTF-8") {
    const std::string shown = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    const std::string little(
        "\xff\xfe"
        "a\0\xe9\0\xac\x20\x3d\xd8\x00\xde",
        12),
        big("\xfe\xff"
            "\0a\0\xe9\x20\xac\xd8\x3d\xde\x00",
            12);
    CHECK(plain_utf8(little) == shown);
    CHECK(plain_utf8(big) == shown);
    CHECK(plain_utf8(little + "b") == shown);
    CHECK(plain_utf8("\xef\xbb\xbf"
                     "a\r\nb\rc\r") == "a\nb\rc\r");
    CHECK(plain_utf8("a\n\r\nb") == "a\n\nb");
    // where lengths change
    CHECK(plain_utf8(std::string("\xff\xfe"
                                 "\x7f\0\x80\0\xff\x07\x00\x08\xff\xff",
                                 12)) == "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf");
    CHECK(plain_utf8("").empty());
    // a colour, a title that ESC \\ ends, a set of characters, a code that is cut
    CHECK(plain_utf8("a\x1b[1;31mb\x1b[0m \x1b]0;t\x1b\\c\x1b(Bd\x1b]e\nf\x1b[") == "ab cd\nf");
}
