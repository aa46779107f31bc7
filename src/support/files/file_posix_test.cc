// Files on Linux and macOS: pipes, links, permissions, limits.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "support/files/file_fixture.h"

namespace sardonyx {
namespace {

TEST_F(FileTest, ReadsAPipe) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::string text(200'003, 'x');
  std::thread writer([&] { write_all(folder_ / "pipe", text); });
  auto file = MappedFile::open(folder_ / "pipe");
  writer.join();
  EXPECT_EQ(text_of(file->bytes()), text);
  EXPECT_FALSE(file->range_of(file->bytes()));
  file->check_unchanged();
}

TEST_F(FileTest, WhatModelsNameIsNoPipeAndNoDevice) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder_ / "link");
  for (const char* name : {"pipe", "link"}) {
    EXPECT_NE(error_of([&] { require_regular(folder_ / name); }, ErrorCode::kInvalidModel).find("is not a regular file"),
              std::string::npos);
  }
  write_all(folder_ / "file", "abc");
  for (const char* name : {"file", ".", "nothing"}) EXPECT_NO_THROW(require_regular(folder_ / name));
}

TEST_F(FileTest, WhatCannotBeLinkedIsWritten) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  AtomicFile out(folder_ / "out");
  EXPECT_FALSE(out.link(ends[0]));
  out.append("copied");
  out.commit();
  EXPECT_EQ(read_all(folder_ / "out"), "copied");
  EXPECT_EQ(names(), Names{"out"});
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(FileTest, CopiesToAPipeInPieces) {
  std::string source(1'500'007, 'q');
  write_all(folder_ / "in", source);
  auto in = MappedFile::open(folder_ / "in");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::string got;
  std::thread reader([&] {
    char part[65536];
    for (ssize_t n; (n = ::read(ends[0], part, sizeof part)) > 0;) got.append(part, static_cast<size_t>(n));
  });
  copy_range(*in->range_of(in->bytes()), in->size(), ends[1], std::nullopt, "pipe");
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_TRUE(got == source);
}

TEST_F(FileTest, KeepsPermissions) {
  write_all(folder_ / "real", "old");
  ::chmod((folder_ / "real").c_str(), 0640);
  AtomicFile out(folder_ / "real");
  out.append("new");
  out.commit();
  EXPECT_EQ(read_all(folder_ / "real"), "new");
  struct stat s;
  ASSERT_EQ(::stat((folder_ / "real").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0640u);
}

TEST_F(FileTest, ReplacesALinkAndNotWhatItLeadsTo) {
  write_all(folder_ / "real", "old");
  for (const char* to : {"real", "nowhere"}) {
    fs::create_symlink(to, folder_ / "link");
    EXPECT_FALSE(replaced_at(folder_ / "link"));
    AtomicFile out(folder_ / "link");
    out.append("new");
    out.commit();
    EXPECT_FALSE(fs::is_symlink(folder_ / "link"));
    EXPECT_EQ(read_all(folder_ / "link"), "new");
    EXPECT_EQ(read_all(folder_ / "real"), "old");
    EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
    fs::remove(folder_ / "link");
  }
}

TEST_F(FileTest, TheLongestNameIsFine) {
  fs::path target = folder_ / std::string(255, 'n');
  AtomicFile out(target);
  out.append("x");
  out.commit();
  EXPECT_EQ(read_all(target), "x");
}

// In a child process, because the limit cannot be lifted again. Exit status 0: the error came, and nothing
// was left.
TEST_F(FileTest, ADiskThatFillsUpLeavesTheOldFile) {
  write_all(folder_ / "out", "old");
  write_all(folder_ / "in", std::string(400'000, 'i'));
  for (bool copied : {false, true}) {
    pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      rlimit limit{100'000, 100'000};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      bool reported = false;
      try {
        auto in = MappedFile::open(folder_ / "in");
        AtomicFile out(folder_ / "out");
        if (copied) out.append(*in->range_of(in->bytes()), in->size());
        if (!copied) out.append(std::string(400'000, 'x'));
        out.commit();
      } catch (const Error& e) {
        reported = std::string_view(e.what()).find("File too large") != std::string_view::npos;
      }
      ::_exit(reported ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "copied: " << copied << ", status " << status;
    EXPECT_EQ(read_all(folder_ / "out"), "old");
    EXPECT_EQ(names(), (Names{"in", "out"}));
  }
}

TEST_F(FileTest, AFolderThatIsNotThereYetHoldsItsFiles) {
  for (const char* spelled : {"new", "new/"})
    EXPECT_NO_THROW(require_inside(folder_ / spelled, folder_ / "new" / "m.onnx")) << spelled;
  EXPECT_NO_THROW(require_inside("", "m.onnx"));
  // Relative to the current folder, with a part that is not there yet.
  EXPECT_NO_THROW(require_inside("", "new-weights/weight.bin"));
  EXPECT_NO_THROW(require_inside("new-weights", "new-weights/more/weight.bin"));
  EXPECT_THROW(require_inside("new-weights", "../weight.bin"), Error);
  EXPECT_NO_THROW(require_inside("/", "/m.onnx"));
  EXPECT_THROW(require_inside(folder_ / "new/", folder_ / "other" / "m.onnx"), Error);
  std::filesystem::create_directory_symlink("/", folder_ / "link");
  EXPECT_THROW(require_inside(folder_, folder_ / "link" / "m.onnx"), Error);
}

}  // namespace
}  // namespace sardonyx
