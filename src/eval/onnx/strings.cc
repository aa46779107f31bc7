// Operators on strings.
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "eval/kernel.h"
#include "sardonyx/error.h"

namespace sardonyx::eval {
namespace {

// Changes the case of one character of ASCII, Latin-1, Latin Extended-A, Greek or Cyrillic, whatever the
// locale.
uint32_t changed_case(uint32_t c, bool upper) {
  if (c < 128) return upper ? (c >= 'a' && c <= 'z' ? c - 32 : c) : (c >= 'A' && c <= 'Z' ? c + 32 : c);
  auto shift = [&](uint32_t low, uint32_t high, uint32_t distance, uint32_t& to) {  // capitals; lowercase is `distance` later
    if (!upper && c >= low && c <= high) return to = c + distance, true;
    if (upper && c >= low + distance && c <= high + distance) return to = c - distance, true;
    return false;
  };
  uint32_t to = c;
  if (c == 0xd7 || c == 0xf7) return c;
  if (c == 0xff) return upper ? 0x178 : c;
  if (c == 0x178) return upper ? c : 0xff;
  if (shift(0xc0, 0xde, 32, to)) return to;
  const bool pairs_even = (c >= 0x100 && c <= 0x137 && c != 0x130 && c != 0x131) || (c >= 0x14a && c <= 0x177) ||
                          (c >= 0x460 && c <= 0x481) || (c >= 0x48a && c <= 0x4bf);
  const bool pairs_odd = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e);
  if (pairs_even) return upper ? c & ~1u : c | 1;
  if (pairs_odd) return upper ? (c % 2 == 0 ? c - 1 : c) : (c % 2 == 1 ? c + 1 : c);
  if (c != 0x3a2 && c != 0x3c2 && shift(0x391, 0x3ab, 32, to)) return to;
  if (shift(0x410, 0x42f, 32, to) || shift(0x400, 0x40f, 80, to)) return to;
  return c;
}

std::string change_case(const std::string& s, bool upper) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    const auto first = static_cast<uint8_t>(s[i]);
    if (first >= 0xc0 && first < 0xe0 && i + 1 < s.size()) {  // all other letters with case take two bytes, before and after
      const uint32_t c = changed_case(((first & 31u) << 6) | (static_cast<uint8_t>(s[i + 1]) & 63u), upper);
      out += static_cast<char>(0xc0 | (c >> 6));
      out += static_cast<char>(0x80 | (c & 63));
      i += 2;
    } else {
      out += first < 128 ? static_cast<char>(changed_case(first, upper)) : s[i];
      ++i;
    }
  }
  return out;
}

std::vector<std::string> split_text(const std::string& s, const std::string& delimiter, int64_t limit) {
  std::vector<std::string> out;
  if (delimiter.empty()) {
    constexpr std::string_view kSpace = " \t\n\r\f\v";
    size_t at = s.find_first_not_of(kSpace);
    while (at != std::string::npos) {
      const size_t end = s.find_first_of(kSpace, at);
      if (static_cast<int64_t>(out.size()) == limit || end == std::string::npos) {
        out.push_back(s.substr(at, s.find_last_not_of(kSpace) + 1 - at));
        break;
      }
      out.push_back(s.substr(at, end - at));
      at = s.find_first_not_of(kSpace, end);
    }
    return out;
  }
  size_t at = 0;
  while (static_cast<int64_t>(out.size()) != limit) {
    const size_t end = s.find(delimiter, at);
    if (end == std::string::npos) break;
    out.push_back(s.substr(at, end - at));
    at = end + delimiter.size();
  }
  out.push_back(s.substr(at));
  return out;
}

}  // namespace

namespace kernels {

void StringConcat(Call& c) {
  const std::vector<int64_t> shape = broadcast_shapes(c.in(0).shape(), c.in(1).shape());
  const Array a = c.in(0).broadcast_to(shape), b = c.in(1).broadcast_to(shape);
  Array out = c.make(DType::kString, shape);
  for (int64_t i = 0; i < out.size(); ++i) out.as<std::string>()[i] = a.string_at(i) + b.string_at(i);
  c.set(0, out);
}

void StringSplit(Call& c) {
  const Array& x = c.in(0);
  const std::string delimiter = c.string_attr("delimiter", "");
  const int64_t limit = c.attr("maxsplit") != nullptr ? c.int_attr("maxsplit") : -1;
  std::vector<std::vector<std::string>> parts;
  size_t most = 0;
  Array counts = c.make(DType::kI64, x.shape());
  for (int64_t i = 0; i < x.size(); ++i) {
    parts.push_back(split_text(x.string_at(i), delimiter, limit));
    most = std::max(most, parts.back().size());
    counts.as<int64_t>()[i] = static_cast<int64_t>(parts.back().size());
  }
  std::vector<int64_t> shape(x.shape());
  shape.push_back(static_cast<int64_t>(most));
  Array out = c.make(DType::kString, shape);
  for (size_t i = 0; i < parts.size(); ++i) std::ranges::move(parts[i], out.as<std::string>() + i * most);
  c.set(0, out);
  c.set(1, counts);
}

void RegexFullMatch(Call& c) {
  const Array& x = c.in(0);
  const std::string text = c.string_attr("pattern", "");
  const re2::RE2 pattern(text, re2::RE2::Quiet);
  if (!pattern.ok()) {
    const bool large = pattern.error_code() == re2::RE2::ErrorPatternTooLarge;
    throw Error(large ? ErrorCode::kLimit : ErrorCode::kInvalidModel,
                fmt::format("RE2 refuses the pattern \"{}\": {}", text, pattern.error()));
  }
  Array out = c.make(DType::kBool, x.shape());
  for (int64_t i = 0; i < x.size(); ++i) out.as<uint8_t>()[i] = re2::RE2::FullMatch(x.string_at(i), pattern);
  c.set(0, out);
}

// Removes stop words and changes the case of the rest. The comparison respects case only when asked to.
void StringNormalizer(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() == 1 || (x.rank() == 2 && x.dim(0) == 1), "expected strings of shape [C] or [1, C]");
  const std::string action = c.string_attr("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER") c.fail(fmt::format("unknown case change \"{}\"", action));
  const bool sensitive = c.int_attr("is_case_sensitive", 0) != 0;
  std::unordered_set<std::string> stop;
  for (const std::string& s : c.strings_attr("stopwords").value_or(std::vector<std::string>{})) {
    stop.insert(sensitive ? s : change_case(s, false));
  }
  std::vector<std::string> kept;
  for (int64_t i = 0; i < x.size(); ++i) {
    const std::string& s = x.string_at(i);
    if (stop.contains(sensitive ? s : change_case(s, false))) continue;
    kept.push_back(action == "NONE" ? s : change_case(s, action == "UPPER"));
  }
  if (kept.empty()) kept.emplace_back();
  std::vector<int64_t> shape{static_cast<int64_t>(kept.size())};
  if (x.rank() == 2) shape.insert(shape.begin(), 1);
  c.set(0, EvalValue(Tensor::strings(std::move(shape), std::move(kept))));
}

// Counts the n-grams of a pool. The pool lists n-grams by length; ngram_counts says where each length begins.
void TfIdfVectorizer(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() <= 2, "expected a sequence or a batch of sequences");
  const std::string mode = c.string_attr("mode", "TF");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") c.fail(fmt::format("unknown mode \"{}\"", mode));
  const int64_t shortest = c.int_attr("min_gram_length"), longest = c.int_attr("max_gram_length"),
                skips = c.int_attr("max_skip_count");
  const std::vector<int64_t> starts = c.ints_attr("ngram_counts").value_or(std::vector<int64_t>{});
  const std::vector<int64_t> targets = c.ints_attr("ngram_indexes").value_or(std::vector<int64_t>{});
  const std::vector<double> weights = c.floats_attr("weights").value_or(std::vector<double>{});
  c.require(!targets.empty() && std::ranges::all_of(targets, [](int64_t t) { return t >= 0; }),
            "ngram_indexes are missing or negative");
  // Number the words.
  std::unordered_map<std::string, int64_t> words;
  std::vector<int64_t> pool, text;
  if (x.dtype() == DType::kString) {
    for (const std::string& s : c.strings_attr("pool_strings").value_or(std::vector<std::string>{})) {
      pool.push_back(words.try_emplace(s, static_cast<int64_t>(words.size())).first->second);
    }
    for (int64_t i = 0; i < x.size(); ++i) {
      const auto at = words.find(x.string_at(i));
      text.push_back(at == words.end() ? -1 : at->second);
    }
  } else {
    pool = c.ints_attr("pool_int64s").value_or(std::vector<int64_t>{});
    text = c.ints(0);
  }
  std::map<std::vector<int64_t>, size_t> grams;  // -> its number
  size_t number = 0;
  for (size_t n = 0; n < starts.size(); ++n) {
    const int64_t begin = starts[n], end = n + 1 < starts.size() ? starts[n + 1] : static_cast<int64_t>(pool.size());
    const auto length = static_cast<int64_t>(n) + 1;
    c.require(begin >= 0 && begin <= end && end <= static_cast<int64_t>(pool.size()), "ngram_counts do not fit the pool");
    for (int64_t at = begin; at + length <= end; at += length, ++number) {
      if (length >= shortest && length <= longest)
        grams.emplace(std::vector<int64_t>(pool.begin() + at, pool.begin() + at + length), number);
    }
  }
  c.require(number <= targets.size(), "ngram_indexes are fewer than the n-grams");
  const int64_t width = *std::ranges::max_element(targets) + 1;
  const int64_t rows = x.rank() == 2 ? x.dim(0) : 1, length = x.rank() == 2 ? x.dim(1) : x.size();
  Array out = c.make(DType::kF32, x.rank() == 2 ? std::vector<int64_t>{rows, width} : std::vector<int64_t>{width});
  std::fill(out.as<float>(), out.as<float>() + out.size(), 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    float* counts = out.as<float>() + r * width;
    const int64_t* row = text.data() + r * length;
    for (int64_t n = shortest; n <= longest; ++n) {
      for (int64_t step = 1; step <= skips + 1; ++step) {
        if (n == 1 && step > 1) break;  // single words have no skips
        for (int64_t begin = 0; begin + (n - 1) * step < length; ++begin) {
          std::vector<int64_t> gram;
          for (int64_t k = 0; k < n; ++k) gram.push_back(row[begin + k * step]);
          if (const auto at = grams.find(gram); at != grams.end()) counts[targets[at->second]] += 1;
        }
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      if (mode == "IDF") counts[i] = counts[i] > 0 ? 1 : 0;
    }
    if (mode == "TF" || weights.empty()) continue;
    for (int64_t i = 0; i < width && i < static_cast<int64_t>(weights.size()); ++i)
      counts[i] *= static_cast<float>(weights[static_cast<size_t>(i)]);
  }
  c.set(0, out);
}

}  // namespace kernels
}  // namespace sardonyx::eval
