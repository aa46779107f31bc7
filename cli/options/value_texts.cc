#include "cli/options/value_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "cli/options/options.h"
#include "convert/run_inputs.h"
#include "io/array_file.h"

namespace sardonyx::cli {
namespace {

class ValueParser {
 public:
  ValueParser(std::string_view text, DType dtype) : text_(text), dtype_(dtype) {}

  TensorPtr run() {
    value(0);
    skip();
    if (at_ != text_.size()) fail("the end");
    if (dtype_ == DType::kString) return Tensor::strings(shape_, std::move(strings_));
    const int width = bit_width(dtype_);
    const auto n = static_cast<int64_t>(std::max(doubles_.size(), ints_.size()));
    std::vector<std::byte> bytes(byte_size(dtype_, static_cast<uint64_t>(n)), std::byte{0});
    for (int64_t i = 0; i < n; ++i) {
      if (is_float(dtype_)) {
        encode_element(dtype_, bytes.data(), i, doubles_[static_cast<size_t>(i)]);
      } else if (width >= 8) {
        const int64_t v = ints_[static_cast<size_t>(i)];
        std::memcpy(bytes.data() + i * (width / 8), &v, static_cast<size_t>(width / 8));
      } else {
        encode_element(dtype_, bytes.data(), i, static_cast<double>(ints_[static_cast<size_t>(i)]));
      }
    }
    return Tensor::own(dtype_, shape_, std::move(bytes));
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  [[noreturn]] void fail(std::string_view expected) const {
    refuse(fmt::format("'{}' is not a value of {}: expected {} at {}", text_, to_string(dtype_), expected, at_ + 1),
           {"help: a value is a number, or lists like [[1, 2], [3, 4]]; arrays come from files, x=x.npy"});
  }

  void value(size_t depth) {
    skip();
    if (at_ < text_.size() && text_[at_] == '[') {
      if (depth > 64) fail("fewer brackets");
      ++at_;
      int64_t n = 0;
      skip();
      if (at_ < text_.size() && text_[at_] == ']') {
        ++at_;
      } else {
        while (true) {
          value(depth + 1);
          ++n;
          skip();
          if (at_ < text_.size() && text_[at_] == ',') {
            ++at_;
          } else if (at_ < text_.size() && text_[at_] == ']') {
            ++at_;
            break;
          } else {
            fail("',' or ']'");
          }
        }
      }
      if (known_.size() <= depth) known_.resize(depth + 1, false), shape_.resize(std::max(shape_.size(), depth + 1), 0);
      if (known_[depth] && shape_[depth] != n) fail("lists of equal length");
      shape_[depth] = n;
      known_[depth] = true;
      return;
    }
    if (element_depth_ && *element_depth_ != depth) fail("lists of equal depth");
    element_depth_ = depth;
    if (shape_.size() < depth) shape_.resize(depth, 0);
    element();
  }

  void element() {
    if (dtype_ == DType::kString) {
      if (at_ < text_.size() && text_[at_] == '"') {
        std::string s;
        for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
          if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
          s += text_[at_];
        }
        if (at_ == text_.size()) fail("a closing quote");
        ++at_;
        strings_.push_back(std::move(s));
        return;
      }
      const size_t end = std::min(text_.find_first_of(",]", at_), text_.size());
      strings_.emplace_back(text_.substr(at_, end - at_));
      at_ = end;
      return;
    }
    const std::string_view rest = text_.substr(at_);
    for (const auto& [word, v] : {std::pair{"true", 1}, {"false", 0}, {"True", 1}, {"False", 0}}) {
      if (!rest.starts_with(word)) continue;
      at_ += std::string_view(word).size();
      doubles_.push_back(v);
      ints_.push_back(v);
      return;
    }
    const char* begin = rest.data();
    const char* end = rest.data() + rest.size();
    if (is_float(dtype_)) {
      double v = 0;
      const auto [stop, error] = std::from_chars(begin, end, v);
      if (error != std::errc() && error != std::errc::result_out_of_range) fail("a number");
      doubles_.push_back(v);
      at_ += static_cast<size_t>(stop - begin);
      return;
    }
    if (!is_integer(dtype_) && dtype_ != DType::kBool) fail("a value of a simple type");
    int64_t v = 0;
    const char* stop = nullptr;
    if (dtype_ == DType::kU64) {
      uint64_t u = 0;
      const auto r = std::from_chars(begin, end, u);
      if (r.ec != std::errc()) fail("a whole number from 0");
      v = static_cast<int64_t>(u);
      stop = r.ptr;
    } else {
      const auto r = std::from_chars(begin, end, v);
      if (r.ec != std::errc()) fail("a whole number");
      stop = r.ptr;
      const int width = bit_width(dtype_);
      const int64_t high = dtype_ == DType::kBool ? 1
                           : is_signed(dtype_)    ? (width == 64 ? INT64_MAX : (int64_t{1} << (width - 1)) - 1)
                                                  : (int64_t{1} << width) - 1;
      const int64_t low = is_signed(dtype_) ? -high - 1 : 0;
      if (v < low || v > high) fail(fmt::format("a number from {} to {}", low, high));
    }
    ints_.push_back(v);
    at_ += static_cast<size_t>(stop - begin);
  }

  std::string_view text_;
  DType dtype_;
  size_t at_ = 0;
  std::vector<int64_t> shape_;
  std::vector<bool> known_;
  std::optional<size_t> element_depth_;
  std::vector<double> doubles_;
  std::vector<int64_t> ints_;
  std::vector<std::string> strings_;
};

}  // namespace

NamedTensors input_values(const Graph& g, const std::vector<std::string>& texts) {
  NamedTensors values;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      if (!text.ends_with(".npz"))
        refuse(fmt::format("'{}' is not an input", text), {"expected NAME=FILE.npy, NAME=VALUE or FILE.npz"});
      const auto expected = [&](const std::string& name) { return input_dtype(g, input_number(g, name)); };
      std::ranges::move(read_npz(text, expected), std::back_inserter(values));
      continue;
    }
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    const std::optional<DType> dtype = input_dtype(g, input_number(g, name));
    if (value.ends_with(".npy")) {
      values.emplace_back(name, read_npy(value, dtype));
      continue;
    }
    if (!dtype) refuse(fmt::format("input '{}' has no element type: its value must come from a file", name));
    values.emplace_back(name, ValueParser(value, *dtype).run());
  }
  return values;
}

std::vector<NamedTensors> inputs_of_runs(const Graph& g, const std::vector<std::string>& texts) {
  std::vector<std::string> files, common;
  for (const std::string& text : texts) (text.find('=') == std::string::npos ? files : common).push_back(text);
  const NamedTensors of_all = input_values(g, common);
  std::vector<NamedTensors> runs;
  for (const std::string& file : files) {
    runs.push_back(of_all);
    std::ranges::move(input_values(g, {file}), std::back_inserter(runs.back()));
  }
  if (files.empty() && !common.empty()) runs.push_back(of_all);
  return runs;
}

}  // namespace sardonyx::cli
