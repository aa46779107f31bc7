#include "convert/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "convert/interface/input_shapes.h"
#include "sardonyx/convert.h"
#include "sardonyx/error.h"
#include "support/nearest.h"

namespace sardonyx {
namespace {

[[noreturn]] void refuse(std::string what, std::vector<std::string> notes = {}) {
  throw Error(ErrorCode::kInvalidArgument, std::move(what), std::move(notes));
}

// --- values as text

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

const Type* type_of(const Port& p) { return p.declared != nullptr ? p.declared : p.value->type(); }

size_t input_named(const Graph& g, std::string_view name) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    names.push_back(g.inputs()[i].name.view());
    if (names.back() == name) return i;
  }
  const std::string_view meant = nearest(name, names);
  refuse(fmt::format("the model has no input '{}'", name),
         {meant.empty() ? fmt::format("it has: {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", meant)});
}

std::optional<DType> dtype_of(const Port& p) {
  const Type* t = type_of(p);
  if (t != nullptr && t->kind() == TypeKind::kState) t = t->element();
  return t == nullptr || t->dtype() == DType::kUndefined ? std::nullopt : std::optional(t->dtype());
}

}  // namespace

TensorPtr parse_value(std::string_view text, DType dtype) { return ValueParser(text, dtype).run(); }

std::vector<EvalValue> run_inputs(Model& m, const RunRequest& request) {
  fix_input_shapes(m, request.input_shapes);
  const Graph& g = m.graph();
  std::vector<EvalValue> inputs(g.inputs().size());
  auto give = [&](size_t i, TensorPtr t) {
    if (!inputs[i].absent()) refuse(fmt::format("input '{}' is given twice", g.inputs()[i].name.view()));
    inputs[i] = EvalValue(t);
  };
  for (const std::string& text : request.inputs) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      if (!text.ends_with(".npz"))
        refuse(fmt::format("'{}' is not an input", text), {"expected NAME=FILE.npy, NAME=VALUE or FILE.npz"});
      const auto expected = [&](const std::string& name) { return dtype_of(g.inputs()[input_named(g, name)]); };
      for (auto& [name, tensor] : read_npz(text, expected)) give(input_named(g, name), tensor);
      continue;
    }
    const size_t i = input_named(g, text.substr(0, equals));
    const std::string value = text.substr(equals + 1);
    if (value.ends_with(".npy")) {
      give(i, read_npy(value, dtype_of(g.inputs()[i])));
      continue;
    }
    const auto dtype = dtype_of(g.inputs()[i]);
    if (!dtype)
      refuse(fmt::format("input '{}' has no element type: its value must come from a file", g.inputs()[i].name.view()));
    give(i, parse_value(value, *dtype));
  }
  if (request.random) fill_inputs(g, inputs, request.eval.seed);
  check_inputs(g, inputs);
  return inputs;
}

std::vector<std::pair<std::string, EvalValue>> run_model(Model& m, const RunRequest& request) {
  const std::vector<EvalValue> inputs = run_inputs(m, request);
  const Graph& g = m.graph();
  EvalOptions options = request.eval;
  if (request.memory_cap > 0) options.memory_cap = request.memory_cap;
  options.states_too = true;
  std::vector<EvalValue> values = evaluate(g, inputs, options);
  std::vector<std::pair<std::string, EvalValue>> out;
  for (size_t i = 0; i < g.outputs().size(); ++i) out.emplace_back(g.outputs()[i].name.view(), std::move(values[i]));
  size_t next = g.outputs().size();
  for (const Port& p : g.inputs()) {  // the states after the run
    const Type* t = type_of(p);
    if (t != nullptr && t->kind() == TypeKind::kState && next < values.size())
      out.emplace_back(p.name.view(), std::move(values[next++]));
  }
  return out;
}

namespace {

// A map of numbers, such as the probabilities of a classifier, as two tensors: NAME.keys and NAME.values.
void add_map(const std::string& name, const EvalMap& map, NamedTensors& out) {
  std::vector<int64_t> numbers;
  std::vector<std::string> texts;
  std::vector<double> values;
  std::optional<DType> dtype;
  for (const auto& [key, value] : map.entries) {
    const Array* a = value.array();
    if (a == nullptr || a->size() != 1 || !is_float(a->dtype()) || (dtype && *dtype != a->dtype()))
      throw Error(ErrorCode::kUnsupported, fmt::format("result '{}' is a map of other things than floats", name));
    dtype = a->dtype();
    values.push_back(a->double_at(0));
    if (const int64_t* number = std::get_if<int64_t>(&key)) numbers.push_back(*number);
    if (const std::string* text = std::get_if<std::string>(&key)) texts.push_back(*text);
  }
  const auto n = static_cast<int64_t>(values.size());
  out.emplace_back(name + ".keys",
                   texts.empty() ? Tensor::of<int64_t>(DType::kI64, {n}, numbers) : Tensor::strings({n}, texts));
  const DType kind = dtype.value_or(DType::kF64);
  std::vector<std::byte> bytes(byte_size(kind, values.size()));
  for (size_t i = 0; i < values.size(); ++i) encode_element(kind, bytes.data(), static_cast<int64_t>(i), values[i]);
  out.emplace_back(name + ".values", Tensor::own(kind, {n}, std::move(bytes)));
}

}  // namespace

NamedTensors tensors_in(const std::vector<std::pair<std::string, EvalValue>>& results) {
  NamedTensors out;
  std::vector<std::pair<std::string, const EvalValue*>> todo;
  for (auto r = results.rbegin(); r != results.rend(); ++r) todo.emplace_back(r->first, &r->second);
  while (!todo.empty()) {
    const auto [name, v] = todo.back();
    todo.pop_back();
    if (const Array* a = v->array()) {
      out.emplace_back(name, a->to_tensor());
    } else if (const auto* items = v->items()) {
      for (size_t i = items->size(); i-- > 0;) todo.emplace_back(fmt::format("{}.{}", name, i), &(*items)[i]);
    } else if (const EvalOptional* o = v->optional()) {
      if (o->value) todo.emplace_back(name, o->value.get());
    } else if (v->map() != nullptr) {
      add_map(name, *v->map(), out);
    }
  }
  return out;
}

}  // namespace sardonyx
