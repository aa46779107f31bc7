// Files on Linux: unnamed files, holes, reserved blocks, copies inside the kernel.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "support/files/file_fixture.h"

namespace sardonyx {
namespace {

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

TEST_F(FileTest, CopiesWhereTheSystemHasAWayOfItsOwn) {
  std::string source(1'500'007, '\0');
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 2654435761u >> 11);
  // In memory, thus not on ext4.
  const int from = ::memfd_create("from", 0), to = ::memfd_create("to", 0);
  ASSERT_TRUE(from >= 0 && to >= 0);
  ASSERT_EQ(::write(from, source.data(), source.size()), static_cast<ssize_t>(source.size()));
  copy_range({.fd = from, .offset = 1009}, 1'000'003, to, 70, "to");
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

TEST_F(FileTest, AFullDeviceIsReportedWithAdvice) {
  // As root, use a full device made here: a bug must not replace the machine's.
  fs::path full = folder_ / "full";
  if (::mknod(full.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0) full = "/dev/full";
  const int probe = ::open(full.c_str(), O_WRONLY);
  if (probe < 0) GTEST_SKIP() << "no full device here";
  ::close(probe);
  AtomicFile out(full);
  out.append("hello");
  std::string error = error_of([&] { out.commit(); });
  EXPECT_NE(error.find("cannot write '" + full.string() + "': No space left on device"), std::string::npos) << error;
  EXPECT_NE(error.find("free some space"), std::string::npos) << error;
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

}  // namespace
}  // namespace sardonyx
