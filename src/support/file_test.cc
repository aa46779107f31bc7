// Tests of reading files (mapped_file) and writing them (atomic_file, copy_range).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "sardonyx/error.h"
#include "support/atomic_file.h"
#include "support/copy_range.h"
#include "support/inside.h"
#include "support/mapped_file.h"
#include "support/regular_file.h"

namespace sardonyx {
namespace {

namespace fs = std::filesystem;

std::string text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_all(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

// The text of the error that `act` throws; empty if it throws nothing.
std::string error_of(const std::function<void()>& act, ErrorCode code = ErrorCode::kIo) {
  try {
    act();
  } catch (const Error& e) {
    EXPECT_EQ(to_string(e.code()), to_string(code));
    return e.what();
  }
  return {};
}

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string name = (fs::temp_directory_path() / "sx-file-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }

  // Sorted names in the folder: what a run left behind.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }

  fs::path folder_;
};

using Names = std::vector<std::string>;

TEST_F(FileTest, MapsAFileAndTellsWhereItsBytesLie) {
  write_all(folder_ / "in", "hello, world");
  auto file = MappedFile::open(folder_ / "in");
  EXPECT_TRUE(file->is_mapped());
  EXPECT_EQ(text_of(file->bytes()), "hello, world");
  auto range = file->range_of(file->bytes().subspan(7, 5));
  ASSERT_TRUE(range);
  EXPECT_EQ(range->offset, 7u);
  char word[6] = {};
  EXPECT_EQ(::pread(range->fd, word, 5, static_cast<off_t>(range->offset)), 5);
  EXPECT_STREQ(word, "world");
}

TEST_F(FileTest, RangeOfForeignBytesIsRefused) {
  write_all(folder_ / "in", "hello");
  auto file = MappedFile::open(folder_ / "in");
  EXPECT_NE(error_of([&] { (void)file->range_of(bytes_of("elsewhere")); }, ErrorCode::kInternal), "");
}

TEST_F(FileTest, ReadsIntoMemoryWithoutAMapping) {
  write_all(folder_ / "in", "hello");
  auto file = MappedFile::open(folder_ / "in", MappedFile::Access::kRead);
  EXPECT_FALSE(file->is_mapped());
  write_all(folder_ / "in", "other");  // in place: a mapping would show it
  EXPECT_EQ(text_of(file->bytes()), "hello");
}

TEST_F(FileTest, AnEmptyFileHasNoBytes) {
  write_all(folder_ / "in", "");
  EXPECT_EQ(MappedFile::open(folder_ / "in")->size(), 0u);
  EXPECT_EQ(MappedFile::open(folder_ / "in", MappedFile::Access::kRead)->size(), 0u);
}

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

TEST_F(FileTest, SaysWhyAFileCannotBeOpened) {
  EXPECT_EQ(error_of([&] { MappedFile::open(folder_ / "none"); }),
            "cannot open '" + (folder_ / "none").string() + "': No such file or directory");
  EXPECT_NE(error_of([&] { MappedFile::open(folder_); }).find("Is a directory"), std::string::npos);
}

TEST_F(FileTest, NoticesThatAFileChanged) {
  write_all(folder_ / "in", "hello");
  auto file = MappedFile::open(folder_ / "in");
  file->check_unchanged();
  write_all(folder_ / "in", "hello, world");
  EXPECT_NE(error_of([&] { file->check_unchanged(); }).find("its size was 5 bytes and is 12"), std::string::npos);

  auto again = MappedFile::open(folder_ / "in");
  fs::last_write_time(folder_ / "in", fs::last_write_time(folder_ / "in") + std::chrono::seconds(2));
  EXPECT_NE(error_of([&] { again->check_unchanged(); }).find("its time stamp changed"), std::string::npos);
}

TEST_F(FileTest, AFileReplacedByNameIsStillTheOneThatWasOpened) {
  write_all(folder_ / "in", "hello");
  auto file = MappedFile::open(folder_ / "in");
  write_all(folder_ / "new", "other");
  fs::rename(folder_ / "new", folder_ / "in");
  file->check_unchanged();
  EXPECT_EQ(text_of(file->bytes()), "hello");
  EXPECT_FALSE(FileStamp::of(folder_ / "in")->same_file(file->stamp()));
}

TEST_F(FileTest, ForgottenPagesAreReadAgain) {
  std::string text(64 * 1024, 'a');
  text[40'000] = 'b';
  write_all(folder_ / "in", text);
  auto file = MappedFile::open(folder_ / "in");
  EXPECT_EQ(text_of(file->bytes()), text);
  file->forget(file->bytes().subspan(100, 60'000));
  EXPECT_EQ(text_of(file->bytes()), text);
}

TEST_F(FileTest, IsNotThereBeforeCommit) {
  AtomicFile out(folder_ / "out");
  out.append("hello");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  out.commit();
  EXPECT_EQ(read_all(folder_ / "out"), "hello");
  EXPECT_EQ(names(), Names{"out"});
}

TEST_F(FileTest, WithoutCommitTheOldFileStaysAndNothingElse) {
  write_all(folder_ / "out", "old");
  {
    AtomicFile out(folder_ / "out");
    out.append("new");
  }
  EXPECT_EQ(read_all(folder_ / "out"), "old");
  EXPECT_EQ(names(), Names{"out"});
}

TEST_F(FileTest, ATemporaryNameIsGoneInTheEnd) {
  const AtomicFile::Options named{.unnamed = false};
  {
    AtomicFile out(folder_ / "out", named);
    out.append("new");
    EXPECT_EQ(names().size(), 1u);
    EXPECT_NE(names(), Names{"out"});
  }
  EXPECT_EQ(names(), Names{});
  AtomicFile out(folder_ / "out", named);
  out.append("new");
  out.commit();
  EXPECT_EQ(read_all(folder_ / "out"), "new");
  EXPECT_EQ(names(), Names{"out"});
}

TEST_F(FileTest, ALinkIsTheFileItself) {
  write_all(folder_ / "in", "weights");
  const auto file = MappedFile::open(folder_ / "in");
  const int fd = file->range_of(file->bytes())->fd;
  for (const char* target : {"out", "out", "in"}) {  // new, over itself, over its source
    for (bool unnamed : {true, false}) {
      AtomicFile out(folder_ / target, {.unnamed = unnamed});
      ASSERT_TRUE(out.link(fd));
      out.commit();
      EXPECT_TRUE(fs::equivalent(folder_ / "in", folder_ / target));
      EXPECT_EQ(read_all(folder_ / target), "weights");
    }
  }
  {
    AtomicFile given_up(folder_ / "out");
    ASSERT_TRUE(given_up.link(fd));
  }
  EXPECT_EQ(names(), (Names{"in", "out"}));
  EXPECT_EQ(fs::hard_link_count(folder_ / "in"), 2u);
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

TEST_F(FileTest, WhatIsExpectedNeedNotCome) {
  AtomicFile out(folder_ / "out");
  out.expect(uint64_t{1} << 22);
  out.append("less");
  out.commit();
  EXPECT_EQ(read_all(folder_ / "out"), "less");
  struct stat now;
  ASSERT_EQ(::stat((folder_ / "out").c_str(), &now), 0);
  EXPECT_LT(now.st_blocks, 100);  // blocks of 512 bytes: space for missing data is released
}

TEST_F(FileTest, AppendsPadsAndOverwrites) {
  AtomicFile out(folder_ / "out", {.sync = true});
  std::string expected;
  // Pieces below and above the size of the buffer.
  for (size_t size : {1u, 70'001u, 250'007u, 600'011u, 3u}) {
    std::string piece(size, static_cast<char>('a' + size % 23));
    out.append(piece);
    expected += piece;
    EXPECT_EQ(out.size(), expected.size());
  }
  out.pad_to(4096);
  expected.resize((expected.size() + 4095) / 4096 * 4096);
  out.pad_to(4096);
  EXPECT_EQ(out.size(), expected.size());
  out.write_at(70'000, bytes_of("in the middle"));
  expected.replace(70'000, 13, "in the middle");
  out.append("end");
  expected += "end";
  out.write_at(expected.size() - 1, bytes_of("D"));  // still in the buffer
  expected.back() = 'D';
  out.commit();
  EXPECT_TRUE(read_all(folder_ / "out") == expected);
}

TEST_F(FileTest, OverwritingWhatWasNotWrittenIsOurFault) {
  AtomicFile out(folder_ / "out");
  out.append("abc");
  EXPECT_NE(error_of([&] { out.write_at(2, bytes_of("xy")); }, ErrorCode::kInternal), "");
  out.commit();
  EXPECT_NE(error_of([&] { out.append("late"); }, ErrorCode::kInternal), "");
}

TEST_F(FileTest, CopiesFromAnotherFileBetweenAppends) {
  std::string source(3'000'017, '\0');
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 2654435761u >> 11);
  write_all(folder_ / "in", source);
  auto in = MappedFile::open(folder_ / "in");
  AtomicFile out(folder_ / "out");
  out.append("<");
  out.append(*in->range_of(in->bytes().subspan(1009, 2'000'003)), 2'000'003);
  out.append(">");
  out.commit();
  EXPECT_TRUE(read_all(folder_ / "out") == "<" + source.substr(1009, 2'000'003) + ">");
}

TEST_F(FileTest, CopiesWhereTheSystemHasAWayOfItsOwn) {
  std::string source(1'500'007, '\0');
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 2654435761u >> 11);
  // In memory, thus not on ext4.
  const int from = ::memfd_create("from", 0), to = ::memfd_create("to", 0);
  ASSERT_TRUE(from >= 0 && to >= 0);
  ASSERT_EQ(::write(from, source.data(), source.size()), static_cast<ssize_t>(source.size()));
  copy_range({.fd = from, .offset = 1009}, 1'000'003, to, 70);
  std::string got(1'000'073 + 1, '?');
  EXPECT_EQ(::pread(to, got.data(), got.size(), 0), 1'000'073);
  got.pop_back();
  EXPECT_TRUE(got == std::string(70, '\0') + source.substr(1009, 1'000'003));
  ::close(from);
  ::close(to);
}

TEST_F(FileTest, HolesStayHoles) {
  constexpr uint64_t kSize = 97 << 20;
  const auto blocks = [&](const char* name) {
    struct stat s;
    EXPECT_EQ(::stat((folder_ / name).c_str(), &s), 0);
    return static_cast<uint64_t>(s.st_blocks) * 512;
  };
  write_all(folder_ / "in", "begin");
  fs::resize_file(folder_ / "in", kSize);
  const int fd = ::open((folder_ / "in").c_str(), O_WRONLY);
  ASSERT_EQ(::pwrite(fd, "middle", 6, 51 << 20), 6);
  ::close(fd);
  if (blocks("in") > kSize / 2) GTEST_SKIP() << "this file system has no holes";
  auto in = MappedFile::open(folder_ / "in");
  for (const uint64_t first : {uint64_t{0}, uint64_t{4096},
                               uint64_t{4099}}) {  // where the copy begins, relative to pages of the source and of the result
    for (const uint64_t before : {uint64_t{0}, uint64_t{1}, uint64_t{4096}}) {
      AtomicFile out(folder_ / "out");
      out.expect(kSize);
      out.append(std::string(before, 'x'));
      out.append(FileRange{in->range_of({})->fd, first}, kSize - first);
      out.append("end");
      out.commit();
      EXPECT_LT(blocks("out"), uint64_t{1} << 20);
      const auto back = MappedFile::open(folder_ / "out");
      ASSERT_EQ(back->size(), before + kSize - first + 3);
      EXPECT_EQ(std::memcmp(back->bytes().data() + before, in->bytes().data() + first, kSize - first), 0);
      AtomicFile bare(folder_ / "bare");  // ends in a hole
      bare.append(FileRange{in->range_of({})->fd, first}, kSize - first);
      bare.commit();
      EXPECT_EQ(fs::file_size(folder_ / "bare"), kSize - first);
      EXPECT_LT(blocks("bare"), uint64_t{1} << 20);
    }
  }
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
  copy_range(*in->range_of(in->bytes()), in->size(), ends[1], std::nullopt);
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_TRUE(got == source);
}

TEST_F(FileTest, SaysThatASourceIsTooShort) {
  write_all(folder_ / "in", "short");
  auto in = MappedFile::open(folder_ / "in");
  AtomicFile out(folder_ / "out");
  std::string error = error_of([&] { out.append(*in->range_of(in->bytes()), 9); });
  EXPECT_NE(error.find("is too short: 4 more bytes"), std::string::npos) << error;
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

TEST_F(FileTest, MakesAMissingFolder) {
  AtomicFile out(folder_ / "new" / "below" / "out");
  out.append("x");
  out.commit();
  EXPECT_EQ(read_all(folder_ / "new" / "below" / "out"), "x");
}

TEST_F(FileTest, SaysWhyAFileCannotBeWritten) {
  write_all(folder_ / "file", "");
  EXPECT_NE(error_of([&] { AtomicFile out(folder_ / "file" / "out"); }).find("Not a directory"), std::string::npos);
  EXPECT_NE(error_of([&] { AtomicFile out{folder_}; }).find("Is a directory"), std::string::npos);
  EXPECT_NE(error_of([&] { AtomicFile out{fs::path()}; }, ErrorCode::kInvalidArgument).find("not a name"), std::string::npos);
  EXPECT_EQ(names(), Names{"file"});
}

TEST_F(FileTest, ACommitThatFailsLeavesNothing) {
  AtomicFile* out = new AtomicFile(folder_ / "out");
  out->append("new");
  fs::create_directory(folder_ / "out");  // a folder that a file cannot replace
  EXPECT_NE(error_of([&] { out->commit(); }).find("Is a directory"), std::string::npos);
  delete out;
  EXPECT_EQ(names(), Names{"out"});
  EXPECT_TRUE(fs::is_directory(folder_ / "out"));
}

TEST_F(FileTest, AFullDeviceIsReportedWithAdvice) {
  // As root, use a full device made here: a bug must not replace the machine's.
  fs::path full = folder_ / "full";
  if (::mknod(full.c_str(), S_IFCHR | 0600, ::makedev(1, 7)) != 0) full = "/dev/full";
  const int probe = ::open(full.c_str(), O_WRONLY);
  if (probe < 0) GTEST_SKIP() << "no full device here";
  ::close(probe);
  AtomicFile out(full);
  out.append("hello");
  std::string error = error_of([&] { out.commit(); });
  EXPECT_NE(error.find("cannot write '" + full.string() + "': No space left on device"), std::string::npos) << error;
  EXPECT_NE(error.find("free some space"), std::string::npos) << error;
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

TEST_F(FileTest, AKilledProcessLeavesNothingWhereFilesNeedNoName) {
  int probe = ::open(folder_.c_str(), O_TMPFILE | O_RDWR, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without a name";
  ::close(probe);
  pid_t child = ::fork();
  if (child == 0) {
    AtomicFile out(folder_ / "out");
    out.append(std::string(1'000'000, 'x'));
    ::_exit(0);  // no destructors
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(names(), Names{});
}

TEST_F(FileTest, AFolderThatIsNotThereYetHoldsItsFiles) {
  for (const char* spelled : {"new", "new/"})
    EXPECT_NO_THROW(require_inside(folder_ / spelled, folder_ / "new" / "m.onnx")) << spelled;
  EXPECT_NO_THROW(require_inside("", "m.onnx"));
  EXPECT_NO_THROW(require_inside("/", "/m.onnx"));
  EXPECT_THROW(require_inside(folder_ / "new/", folder_ / "other" / "m.onnx"), Error);
  std::filesystem::create_directory_symlink("/", folder_ / "link");
  EXPECT_THROW(require_inside(folder_, folder_ / "link" / "m.onnx"), Error);
}

}  // namespace
}  // namespace sardonyx
