#include "support/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "sardonyx/error.h"

namespace sardonyx {
namespace {

using namespace std::string_literals;

TEST(Printable, KeepsTextInAnyScript) {
  for (const char* s : {"", "plain", "two\n\tlines", "größer ≥ 1, 値, 🜁", "~"}) EXPECT_EQ(printable(s), s);
}

TEST(Printable, BytesThatSteerATerminalAreSpelt) {
  EXPECT_EQ(printable("\x1b[2J\a\r\x7f"), "\\x1b[2J\\x07\\x0d\\x7f");
  EXPECT_EQ(printable("a\0b"s), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");               // U+009B begins a sequence, as ESC [ does
  EXPECT_EQ(printable("\xe2\x80\xae.x"), "\\xe2\\x80\\xae.x");  // U+202E
  EXPECT_EQ(printable("\xe2\x81\xa6"), "\\xe2\\x81\\xa6");      // U+2066
}

TEST(Printable, BytesThatAreNotUtf8AreSpelt) {
  EXPECT_TRUE(is_utf8("größer ≥ 1, 値, 🜁"));
  for (const char* s : {"\xff", "\x80", "\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                        "\xc3", "\xe2\x82", "\xc3z"}) {
    EXPECT_FALSE(is_utf8(s)) << printable(s);
    EXPECT_TRUE(printable(s).starts_with("\\x")) << s;
    EXPECT_TRUE(is_utf8(printable(s + "ß"s)));
  }
  EXPECT_EQ(printable("\xc3z"), "\\xc3z");
}

TEST(Printable, LongLinesLoseTheirMiddle) {
  const std::string fits(4000, 'a'), ends = fits + "\n" + fits;
  EXPECT_EQ(without_long_lines(ends), ends);
  const std::string cut = without_long_lines("begin" + std::string(100'000, 'a') + "end\nnext");
  EXPECT_TRUE(cut.starts_with("beginaaa"));
  EXPECT_TRUE(cut.ends_with("aaaend\nnext"));
  EXPECT_NE(cut.find("a [97008 bytes left out] a"), std::string::npos) << cut;
  std::string wide;
  for (int i = 0; i < 3000; ++i) wide += "値";
  EXPECT_TRUE(is_utf8(without_long_lines(wide)));  // no character is cut
  EXPECT_LT(without_long_lines(wide).size(), 4000u);
}

TEST(Printable, ErrorsAre) {
  const Error e = Error(ErrorCode::kIo, "no file '\x1b\0'"s, {"looked for \xff"}).with_note("in \x01");
  EXPECT_EQ(e.message(), "no file '\\x1b\\x00'");
  EXPECT_STREQ(e.what(), "no file '\\x1b\\x00'\n  looked for \\xff\n  in \\x01");
  EXPECT_EQ(e.notes().front(), "looked for \\xff");
}

}  // namespace
}  // namespace sardonyx
