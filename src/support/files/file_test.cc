// Files read (mapped_file) and written (atomic_file, copy_range).
#include "support/files/file_fixture.h"
#include "support/system/system.h"

namespace sardonyx {
namespace {

TEST_F(FileTest, MapsAFileAndTellsWhereItsBytesLie) {
  write_all(folder_ / "in", "hello, world");
  auto file = MappedFile::open(folder_ / "in");
  EXPECT_TRUE(file->is_mapped());
  EXPECT_EQ(text_of(file->bytes()), "hello, world");
  auto range = file->range_of(file->bytes().subspan(7, 5));
  ASSERT_TRUE(range);
  EXPECT_EQ(range->offset, 7u);
  char word[6] = {};
  EXPECT_EQ(sys::read_at(range->fd, std::as_writable_bytes(std::span(word, 5)), range->offset), 5);
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

TEST_F(FileTest, SaysWhyAFileCannotBeOpened) {
  EXPECT_EQ(error_of([&] { MappedFile::open(folder_ / "none"); }),
            "cannot open '" + (folder_ / "none").string() + "': No such file or directory");
  EXPECT_NE(error_of([&] { MappedFile::open(folder_); }).find("Is a directory"), std::string::npos);
}

#ifdef _WIN32
constexpr bool kIsWindows = true;
#else
constexpr bool kIsWindows = false;
#endif

TEST_F(FileTest, NoticesThatAFileChanged) {
  write_all(folder_ / "in", "hello");
  auto file = MappedFile::open(folder_ / "in");
  file->check_unchanged();
  if (!kIsWindows) {  // which does not let mapped files change their size
    write_all(folder_ / "in", "hello, world");
    EXPECT_NE(error_of([&] { file->check_unchanged(); }).find("its size was 5 bytes and is 12"), std::string::npos);
  }

  auto again = MappedFile::open(folder_ / "in");
  fs::last_write_time(folder_ / "in", fs::last_write_time(folder_ / "in") + std::chrono::seconds(2));
  EXPECT_NE(error_of([&] { again->check_unchanged(); }).find("its time stamp changed"), std::string::npos);
}

TEST_F(FileTest, AFileReplacedByNameIsStillTheOneThatWasOpened) {
  if (kIsWindows) GTEST_SKIP() << "Windows does not let mapped files be replaced";
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
  auto file = MappedFile::open(folder_ / "in");
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
  file.reset();  // Windows deletes no name of a mapped file
  EXPECT_EQ(names(), (Names{"in", "out"}));
  EXPECT_EQ(fs::hard_link_count(folder_ / "in"), 2u);
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

TEST_F(FileTest, SaysThatASourceIsTooShort) {
  write_all(folder_ / "in", "short");
  auto in = MappedFile::open(folder_ / "in");
  AtomicFile out(folder_ / "out");
  std::string error = error_of([&] { out.append(*in->range_of(in->bytes()), 9); });
  EXPECT_NE(error.find("is too short: 4 more bytes"), std::string::npos) << error;
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

}  // namespace
}  // namespace sardonyx
