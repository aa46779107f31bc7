#include "sardonyx/dim.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "ir/dims/dim_facts.h"
#include "sardonyx/error.h"

namespace sardonyx {
namespace {

std::string roundtrip(Dims& dims, std::string_view text) { return dims.to_string(dims.parse(text)); }

TEST(Dims, PrintsJaxSpelling) {
  Dims dims;
  std::pair<const char*, const char*> cases[] = {
      {"5 - B", "-B + 5"},
      {"-1*B + 5", "-B + 5"},
      {"- B + 5", "-B + 5"},
      {"B*B", "B^2"},
      {"B**3", "B^3"},
      {"(B + 1)^2", "B^2 + 2*B + 1"},
      {"B*T*2 + 1", "2*B*T + 1"},
      {"3 - 2*B + H", "H - 2*B + 3"},
      {"(B+1)*(T-1)", "B*T + T - B - 1"},
      {"H//2", "floordiv(H, 2)"},
      {"H%2", "mod(H, 2)"},
      {"mod(H + 5, 3)", "mod(H + 2, 3)"},
      {"mod(a, b)", "mod(a, b)"},
      {"3*mod(a, b) + 1", "3*mod(a, b) + 1"},
      {"max(B, T)", "max(B, T)"},
      {"max(T, B)", "max(B, T)"},
      {"min(N, M - N)", "min(N, -N + M)"},
      {"N%3 + B", "mod(N, 3) + B"},
      {"N*floordiv(H, 3)", "N*floordiv(H, 3)"},
      {"floordiv(B*H, 2)", "floordiv(B*H, 2)"},
      {"ceildiv(H, 2)", "floordiv(H + 1, 2)"},
      {"floordiv(H + 1, 2)", "floordiv(H + 1, 2)"},
      {"2*floordiv(B + 8, 2)", "2*floordiv(B, 2) + 8"},
      {"17", "17"},
      {"-3", "-3"},
      {"B - B", "0"},
      {"0*B", "0"},
      {"unk__0 + 1", "unk__0 + 1"},
      {"x.y'", "x.y'"},
      {"\"batch size\"*2", "2*\"batch size\""},
      {"max", "\"max\""},
      {"\"a\\x1b[2J\\x00\\n\\\\x41\"", "\"a\\x1b[2J\\x00\\n\\\\x41\""},
      {"\"\\x4e\" + N", "2*N"},
      {"\"\\xff\"", "\"\\xff\""},
      {"größe", "größe"},
      {"-7 // 2", "-4"},
      {"-7 % 2", "1"},
      {"-2**2", "-4"},
  };
  for (auto [in, out] : cases) {
    EXPECT_EQ(roundtrip(dims, in), out) << in;
    EXPECT_TRUE(dims.parse(in) == dims.parse(out)) << in << " and " << out << " differ";
  }
}

TEST(Dims, EqualFormsAreOneDim) {
  Dims dims;
  std::pair<const char*, const char*> cases[] = {
      {"B*T + T*B", "2*B*T"},
      {"floordiv(2*B + 6, 2)", "B + 3"},
      {"floordiv(4*B + 6, 4)", "B + 1"},
      {"floordiv(2*B + 1, 4)", "floordiv(B, 2)"},
      {"floordiv(B*T, B)", "T"},
      {"floordiv(B*T + 2*B, 3*B)", "floordiv(T + 2, 3)"},
      {"floordiv(B^2 - 1, B + 1)", "B - 1"},
      {"floordiv(B, -2)", "-ceildiv(B, 2)"},
      {"floordiv(floordiv(H, 2), 3)", "floordiv(H, 6)"},
      {"floordiv(floordiv(H - 1, 2), 2) + 1", "floordiv(H + 3, 4)"},
      {"floordiv(floordiv(H + 1, 2) + 1, 2)", "floordiv(H + 3, 4)"},
      {"floordiv(floordiv(floordiv(H + 1, 2) + 1, 2) + 1, 2)", "floordiv(H + 7, 8)"},
      {"mod(H, 4) + 4*floordiv(H, 4)", "H"},
      {"mod(mod(H, 4), 4)", "mod(H, 4)"},
      {"mod(4*H + 3, 4)", "3"},
      {"max(B, 0)", "B"},
      {"max(max(A, B), C)", "max(C, max(B, A))"},
      {"max(B + 1, B)", "B + 1"},
      {"min(B, B + T)", "B"},
      {"floordiv(mod(H, 4), 4)", "0"},
      {"floordiv(B, B + T)", "0"},
      {"floordiv(-A, -B)", "floordiv(A, B)"},
  };
  for (auto [a, b] : cases)
    EXPECT_TRUE(dims.parse(a) == dims.parse(b)) << a << " = " << roundtrip(dims, a) << ", " << b << " = " << roundtrip(dims, b);
  EXPECT_FALSE(dims.parse("floordiv(A, B)") == dims.parse("floordiv(B, A)"));
}

TEST(Dims, UnknownsEqualOnlyThemselves) {
  Dims dims, other;
  Dim u = dims.fresh_unknown(), v = dims.fresh_unknown();
  EXPECT_TRUE(u == u);
  EXPECT_FALSE(u == v);
  EXPECT_FALSE(Dim() == Dim());
  EXPECT_FALSE(u == other.fresh_unknown());
  EXPECT_TRUE(other.import(u, dims) == u);
  EXPECT_EQ(dims.compare(u, v), Compare::kUnknown);
  EXPECT_EQ(dims.compare(u, u), Compare::kEqual);
  EXPECT_TRUE(dims.add(u, Dim::of(0)) == u);
  EXPECT_FALSE(dims.add(u, Dim::of(1)) == dims.add(u, Dim::of(1)));
  EXPECT_TRUE(dims.mul(u, Dim::of(0)).is(0));
  EXPECT_TRUE(dims.sub(u, u).is(0));
  EXPECT_EQ(dims.to_string(u), "?");
}

TEST(Dims, ComparesByProof) {
  Dims dims;
  auto compare = [&](const char* a, const char* b) { return dims.compare(dims.parse(a), dims.parse(b)); };
  EXPECT_EQ(compare("B", "B + 1"), Compare::kDifferent);
  EXPECT_EQ(compare("B + 1", "1"), Compare::kDifferent);
  EXPECT_EQ(compare("B", "0"), Compare::kDifferent);
  EXPECT_EQ(compare("B", "1"), Compare::kUnknown);
  EXPECT_EQ(compare("B", "T"), Compare::kUnknown);
  EXPECT_EQ(compare("2*B", "2*T + 1"), Compare::kDifferent);
  EXPECT_EQ(compare("mod(B, 4)", "4"), Compare::kDifferent);
  EXPECT_EQ(compare("mod(B, 4)", "3"), Compare::kUnknown);
  EXPECT_EQ(compare("max(B, 5)", "4"), Compare::kDifferent);
  EXPECT_EQ(compare("3", "3"), Compare::kEqual);

  auto le = [&](const char* a, const char* b) { return dims.less_equal(dims.parse(a), dims.parse(b)); };
  auto lt = [&](const char* a, const char* b) { return dims.less(dims.parse(a), dims.parse(b)); };
  EXPECT_TRUE(le("B", "B*T"));
  EXPECT_FALSE(lt("B", "B*T"));
  EXPECT_TRUE(lt("B", "B*T + 1"));
  EXPECT_TRUE(le("floordiv(N, 2)", "N"));
  EXPECT_TRUE(lt("floordiv(N, 2)", "N"));
  EXPECT_TRUE(le("min(A, B)", "A"));
  EXPECT_TRUE(le("A", "max(A, B)"));
  EXPECT_TRUE(le("0", "mod(N, M)"));
  EXPECT_FALSE(le("A", "B"));

  dims.set_range("n", {.min = 0, .max = 8});
  EXPECT_EQ(compare("n", "0"), Compare::kUnknown);
  EXPECT_EQ(compare("n", "9"), Compare::kDifferent);
  EXPECT_TRUE(lt("n", "B + 8"));
  EXPECT_EQ(dims.range(dims.parse("2*n + 1")).max, 17);
  EXPECT_EQ(dims.range(dims.parse("2*n + 1")).min, 1);
  EXPECT_EQ(dims.range(dims.parse("B - n")).max, std::nullopt);
  EXPECT_EQ(dims.symbol_range("B").min, 1);
  EXPECT_THROW(dims.set_range("n", {.min = 2, .max = 1}), Error);
}

TEST(Dims, DividesExactly) {
  Dims dims;
  auto divide = [&](const char* a, const char* b) -> std::string {
    auto q = dims.divide_exactly(dims.parse(a), dims.parse(b));
    return q ? dims.to_string(*q) : "no";
  };
  EXPECT_EQ(divide("12", "4"), "3");
  EXPECT_EQ(divide("12", "5"), "no");
  EXPECT_EQ(divide("12", "0"), "no");
  EXPECT_EQ(divide("6*B*T", "2*T"), "3*B");
  EXPECT_EQ(divide("B*T + B", "B"), "T + 1");
  EXPECT_EQ(divide("B*T + B + T + 1", "T + 1"), "B + 1");
  EXPECT_EQ(divide("B", "2"), "no");
  EXPECT_EQ(divide("B", "T"), "no");
  EXPECT_EQ(divide("7*floordiv(H, 2)*B", "floordiv(H, 2)"), "7*B");
  EXPECT_EQ(divide("(A + B + C)*(A - B)", "A - B"), "C + B + A");
}

TEST(Dims, PartsRebuildTheExpression) {
  Dims dims;
  auto rebuild = [&](auto& self, Dim d) -> Dim {
    Dims::Parts p = dims.parts(d);
    if (p.form == Dims::Form::kInt || p.form == Dims::Form::kSymbol) {
      EXPECT_TRUE(p.operands.empty());
      EXPECT_EQ(p.form == Dims::Form::kSymbol, !dims.symbol_name(d).empty());
      return d;
    }
    if (p.form == Dims::Form::kAdd || p.form == Dims::Form::kMul) {
      EXPECT_GE(p.operands.size(), 2u);
    } else {
      EXPECT_EQ(p.operands.size(), 2u);
    }
    Dim r = self(self, p.operands[0]);
    for (size_t i = 1; i < p.operands.size(); ++i) {
      Dim x = self(self, p.operands[i]);
      switch (p.form) {
        case Dims::Form::kAdd: r = dims.add(r, x); break;
        case Dims::Form::kMul: r = dims.mul(r, x); break;
        case Dims::Form::kFloorDiv: r = dims.floordiv(r, x); break;
        case Dims::Form::kMax: r = dims.max(r, x); break;
        case Dims::Form::kMin: r = dims.min(r, x); break;
        default: ADD_FAILURE() << "unexpected form";
      }
    }
    return r;
  };
  for (const char* text : {"5", "B", "3*B^2*T - 7", "-B", "mod(N, 4)*T + max(A, floordiv(B, 3)) - min(A*B, C)"}) {
    Dim d = dims.parse(text);
    EXPECT_TRUE(rebuild(rebuild, d) == d) << text;
  }
  EXPECT_EQ(dims.parts(dims.parse("3*B^2")).operands.size(), 3u);
  EXPECT_EQ(dims.parts(dims.fresh_unknown()).form, Dims::Form::kUnknown);
}

TEST(Dims, SubstitutesAndMovesBetweenTables) {
  Dims dims, other;
  Dim d = dims.parse("mod(N, 4)*T + max(N, floordiv(B, 3))");
  auto at = [&](std::string_view s) -> std::optional<Dim> {
    if (s == "N") return Dim::of(7);
    if (s == "B") return dims.parse("3*T");
    return std::nullopt;
  };
  EXPECT_EQ(dims.to_string(dims.substitute(d, at)), "max(T, 7) + 3*T");
  EXPECT_EQ(dims.symbols(d), (std::vector<std::string>{"B", "N", "T"}));
  EXPECT_EQ(dims.symbol_name(dims.symbol("B")), "B");
  EXPECT_EQ(dims.symbol_name(dims.parse("2*B")), "");

  other.symbol("Z");
  dims.set_range("N", {.min = 2, .max = 9});
  Dim moved = other.import(d, dims);
  EXPECT_EQ(other.to_string(moved), dims.to_string(d));
  EXPECT_TRUE(other.parse(dims.to_string(d)) == moved);
  EXPECT_EQ(other.symbol_range("N").max, 9);
}

TEST(Dims, OverflowAndNonsenseAreErrors) {
  Dims dims;
  auto code = [&](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return std::string(to_string(e.code()));
    }
    return "none";
  };
  Dim big = Dim::of((int64_t{1} << 61) - 1), b = dims.symbol("B");
  EXPECT_EQ(code([&] { Dim::of(int64_t{1} << 61); }), "limit");
  EXPECT_EQ(code([&] { dims.add(big, big); }), "limit");
  EXPECT_EQ(code([&] { dims.mul(big, big); }), "limit");
  EXPECT_EQ(code([&] { dims.mul(dims.mul(b, big), Dim::of(2)); }), "limit");
  EXPECT_EQ(code([&] { dims.mul(dims.mul(b, big), big); }), "limit");
  EXPECT_EQ(code([&] { dims.parse("(A+B+C+D+E+F)^60"); }), "limit");
  EXPECT_EQ(code([&] { dims.parse("99999999999999999999"); }), "limit");
  EXPECT_EQ(code([&] { dims.parse(std::string(1000, '(')); }), "limit");
  EXPECT_EQ(code([&] { dims.floordiv(b, Dim::of(0)); }), "invalid_argument");
  EXPECT_EQ(code([&] { dims.symbol(""); }), "invalid_argument");
  for (const char* bad : {"", "B +", "B T", "2B)", "floordiv(B)", "max(B, T", "B^T", "(", "\"", "B $ 2"})
    EXPECT_EQ(code([&] { dims.parse(bad); }), "parse") << bad;
  try {
    dims.parse("B + $");
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("column 5"), std::string::npos) << e.message();
  }
}

// Random expressions: the normal form evaluates to the directly computed value, its text parses to itself,
// and its bounds hold. The seed is fixed; a failure prints the expression.
TEST(Dims, NormalFormKeepsValuesAtRandomPoints) {
  struct Made {
    Dim dim;
    std::string text;
    std::vector<int64_t> values;  // per point
  };
  constexpr int kPoints = 24;
  const char* names[] = {"B", "T", "H", "N"};
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
    Dims dims;
    std::map<std::string, std::vector<int64_t>, std::less<>> points;
    std::vector<Made> pool;
    for (const char* n : names) {
      auto& v = points[n];
      for (int i = 0; i < kPoints; ++i) v.push_back(1 + below(i < 8 ? 4 : 40));
      pool.push_back({dims.symbol(n), n, v});
    }
    for (int64_t c : {2, 3, 4, 1, -1, 7})
      pool.push_back({Dim::of(c), "(" + std::to_string(c) + ")", std::vector<int64_t>(kPoints, c)});
    for (int step = 0; step < 24; ++step) {
      const Made a = pool[static_cast<size_t>(below(static_cast<int>(pool.size())))];
      const Made b = pool[static_cast<size_t>(below(static_cast<int>(pool.size())))];
      int op = below(8);
      Made r;
      bool defined = true;
      for (int i = 0; i < kPoints && defined; ++i) {
        int64_t x = a.values[static_cast<size_t>(i)], y = b.values[static_cast<size_t>(i)], z = 0;
        if ((op == 3 || op == 4 || op == 7) && y == 0) defined = false;
        if (std::abs(x) > 1000000 || std::abs(y) > 1000000) defined = false;
        if (!defined) break;
        auto floored = [](int64_t p, int64_t q) { return p / q - (p % q != 0 && (p < 0) != (q < 0) ? 1 : 0); };
        switch (op) {
          case 0: z = x + y; break;
          case 1: z = x - y; break;
          case 2: z = x * y; break;
          case 3: z = floored(x, y); break;
          case 4: z = x - y * floored(x, y); break;
          case 5: z = std::max(x, y); break;
          case 6: z = std::min(x, y); break;
          case 7: z = -floored(-x, y); break;
        }
        r.values.push_back(z);
      }
      if (!defined || a.text.size() + b.text.size() > 150) continue;
      const char* f[] = {"+", "-", "*", "floordiv", "mod", "max", "min", "ceildiv"};
      r.text =
          op < 3 ? "(" + a.text + " " + f[op] + " " + b.text + ")" : std::string(f[op]) + "(" + a.text + ", " + b.text + ")";
      switch (op) {
        case 0: r.dim = dims.add(a.dim, b.dim); break;
        case 1: r.dim = dims.sub(a.dim, b.dim); break;
        case 2: r.dim = dims.mul(a.dim, b.dim); break;
        case 3: r.dim = dims.floordiv(a.dim, b.dim); break;
        case 4: r.dim = dims.mod(a.dim, b.dim); break;
        case 5: r.dim = dims.max(a.dim, b.dim); break;
        case 6: r.dim = dims.min(a.dim, b.dim); break;
        case 7: r.dim = dims.ceildiv(a.dim, b.dim); break;
      }
      std::string printed = dims.to_string(r.dim);
      ASSERT_TRUE(dims.parse(printed) == r.dim)
          << r.text << " prints as " << printed << ", which reads as " << dims.to_string(dims.parse(printed));
      ASSERT_TRUE(dims.parse(r.text) == r.dim) << r.text << " is " << printed;
      DimRange range = dims.range(r.dim);
      for (size_t i = 0; i < kPoints; ++i) {
        Dim v = dims.substitute(r.dim, [&](std::string_view s) { return Dim::of(points.find(s)->second[i]); });
        ASSERT_TRUE(v.is(r.values[i])) << r.text << " = " << printed << " is " << dims.to_string(v) << ", not " << r.values[i]
                                       << " at B=" << points["B"][i] << " T=" << points["T"][i] << " H=" << points["H"][i]
                                       << " N=" << points["N"][i];
        ASSERT_TRUE(!range.min || *range.min <= r.values[i]) << printed << " >= " << *range.min << " but is " << r.values[i];
        ASSERT_TRUE(!range.max || *range.max >= r.values[i]) << printed << " <= " << *range.max << " but is " << r.values[i];
      }
      // The verdict of compare() on two random members holds at every point.
      Compare c = dims.compare(a.dim, r.dim);
      for (size_t i = 0; i < kPoints; ++i) {
        bool equal = a.values[i] == r.values[i];
        ASSERT_TRUE(c == Compare::kUnknown || (c == Compare::kEqual) == equal) << a.text << " and " << r.text;
      }
      auto quotient = dims.divide_exactly(a.dim, b.dim);
      ASSERT_TRUE(!quotient || dims.mul(*quotient, b.dim) == a.dim) << a.text << " / " << b.text;
      pool.push_back(std::move(r));
    }
  }
}

TEST(Dims, FactsAboutSizesNarrowRanges) {
  Dims d;
  EXPECT_TRUE(assume(d, "B >= 2"));
  EXPECT_EQ(d.symbol_range("B").min, 2);
  EXPECT_TRUE(assume(d, "4*T + 1 <= 514"));
  EXPECT_EQ(d.symbol_range("T").max, 128);
  EXPECT_EQ(d.symbol_range("T").min, 1);
  EXPECT_TRUE(assume(d, "7 <= 3*N"));
  EXPECT_EQ(d.symbol_range("N").min, 3);
  EXPECT_TRUE(assume(d, "2*K == 6"));
  EXPECT_EQ(d.symbol_range("K").min, 3);
  EXPECT_EQ(d.symbol_range("K").max, 3);
  EXPECT_FALSE(assume(d, "A >= B"));
  EXPECT_FALSE(assume(d, "floordiv(A, 2) >= 1"));
  EXPECT_TRUE(assume(d, "3 >= 2"));
  EXPECT_THROW(assume(d, "2*K == 7"), Error);
  EXPECT_THROW(assume(d, "B <= 1"), Error);
  EXPECT_EQ(d.symbol_range("B").max, std::nullopt);
  EXPECT_THROW(assume(d, "B"), Error);
}

}  // namespace
}  // namespace sardonyx
