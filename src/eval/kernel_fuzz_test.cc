// Runs every kernel on operands that make no sense. Each must return results or throw an Error, without
// touching memory that is not its own.
#include <gtest/gtest.h>

#include <random>

#include "eval/kernel.h"
#include "sardonyx/op.h"

namespace sardonyx::eval {
namespace {

class Nonsense {
 public:
  explicit Nonsense(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t number() {
    static constexpr int64_t kOdd[] = {0, 1, 2, 3, 4, 5, -1, -2, -3, 7, INT64_MAX, INT64_MIN, 1 << 20, int64_t{1} << 40};
    return below(10) < 8 ? kOdd[below(10)] : kOdd[below(std::ssize(kOdd))];
  }

  Array array(const TypeSet& allowed) {
    std::vector<DType> types;
    for (int t = 1; t <= 26; ++t) {
      if ((allowed.tensor >> t) & 1) types.push_back(static_cast<DType>(t));
    }
    if (types.empty() || below(20) == 0) types = {DType::kF32, DType::kI64, DType::kString, DType::kBool, DType::kI4};
    const DType t = types[static_cast<size_t>(below(std::ssize(types)))];
    std::vector<int64_t> shape;
    for (int64_t r = rank_ >= 0 && below(5) > 0 ? rank_ : below(6); r > 0; --r) {
      shape.push_back(below(4) == 0 ? below(6) : size_);
    }
    const int64_t n = product(shape);
    if (t == DType::kString) {
      static constexpr const char* kWords[] = {
          "valid",   "same", "custom",  "same_lower",    "constant", "reflect",         "replicate", "tanh",
          "sigmoid", "relu", "exact",   "none",          "i,i->i",   "nchw,nwhu->nchu", "fp32",      "int32",
          "fp16",    "bool", "forward", "bidirectional", "add",      "update",          "linear",    "uint8"};
      std::vector<std::string> texts;
      for (int64_t i = 0; i < n && words_; ++i) texts.emplace_back(kWords[below(std::ssize(kWords))]);
      for (int64_t i = 0; i < n && !words_; ++i) texts.push_back(std::string(static_cast<size_t>(below(4)), 'a') + "\xc3");
      return Array::of(Tensor::strings(shape, std::move(texts)));
    }
    auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(n) * element_bytes(t));
    Array a(t, shape, bytes->data(), bytes);
    for (int64_t i = 0; i < n; ++i) {
      if (is_float(t) || is_complex(t)) {
        static constexpr double kOdd[] = {0, -0.0, 1, 0.5, -2, 1e30, -1e300, 1e-320, 0x1p63};
        double v = below(4) == 0 ? kOdd[below(std::ssize(kOdd))] : static_cast<double>(below(9)) - 4;
        if (below(30) == 0) v = below(2) ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
        store<double>(a, i, 1, &v);
      } else {
        const int64_t v = number();
        store<int64_t>(a, i, 1, &v);
      }
    }
    if (a.rank() > 1 && below(4) == 0) {
      std::vector<int64_t> perm(a.rank());
      for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(perm.size() - 1 - d);
      a = a.transposed(perm);
    }
    return a;
  }

  EvalValue value(const Slot& slot) {
    if (slot.types.sequence != 0 && below(8) > 0) {
      std::vector<EvalValue> items;
      for (int64_t i = below(4); i > 0; --i) items.emplace_back(array({.tensor = slot.types.sequence}));
      return EvalValue::sequence(std::move(items));
    }
    if (slot.types.any && below(3) > 0) {
      auto map = std::make_shared<EvalMap>();
      map->entries.emplace_back(int64_t{1}, array({.tensor = 1 << 1}));
      return EvalValue(std::shared_ptr<const EvalMap>(map));
    }
    return array(slot.types);
  }

  Attr attr(const AttrSpec& s) {
    static constexpr const char* kWords[] = {
        "constant",   "reflect",     "edge",   "wrap", "linear",        "cubic",         "nearest",
        "SAME_UPPER", "VALID",       "add",    "max",  "mean",          "none",          "i,i->i",
        "ij,jk->ik",  "...a,b->...", "(a|b)*", "[",    "bidirectional", "align_corners", "tf_crop_and_resize",
        "Sigmoid",    "TF",          "gated",  "RBF",  "SOFTMAX",       "CRD",           "LEFT"};
    auto word = [&] { return std::string(kWords[below(std::ssize(kWords))]); };
    switch (s.kind) {
      case AttrKind::kInt:
        return s.name == "to" || s.name == "dtype" || s.name == "output_dtype" ? Attr(below(28)) : Attr(number());
      case AttrKind::kFloat: return Attr(static_cast<double>(number()) / 2);
      case AttrKind::kString: return Attr(word());
      case AttrKind::kTensor: return Attr(array({.tensor = (1 << 1) | (1 << 7)}).to_tensor());
      case AttrKind::kInts: {
        Attr::Ints v;
        for (int64_t n = below(6); n > 0; --n) v.push_back(number());
        return Attr(v);
      }
      case AttrKind::kFloats: {
        Attr::Floats v;
        for (int64_t n = below(8); n > 0; --n) v.push_back(static_cast<double>(number()));
        return Attr(v);
      }
      case AttrKind::kStrings: {
        Attr::Strings v;
        for (int64_t n = below(5); n > 0; --n) v.push_back(word());
        return Attr(v);
      }
      default: return Attr(number());
    }
  }

  void new_case() {
    rank_ = below(6) - 1;
    size_ = 1 + below(4);
  }
  void speak_mil() { words_ = true; }

 private:
  bool words_ = false;
  std::mt19937_64 random_;
  int64_t rank_ = -1, size_ = 2;
};

// How many calls with nonsense operands gave results, and how many were refused. Any other outcome fails the
// test.
struct Counts {
  size_t worked = 0, refused = 0;
};

void run_nonsense(DialectId dialect_id, Counts& counts) {
  const bool onnx = dialect_id == DialectId::kOnnx;
  for (const Op& op : dialect(dialect_id).ops()) {
    const Kernel kernel = find_kernel(op);
    if (kernel == nullptr || op.has(Trait::kSubgraphs)) continue;
    Nonsense n(op.id + 1);
    if (!onnx) n.speak_mil();
    for (int round = 0; round < 60; ++round) {
      n.new_case();
      Model m(dialect_id);
      AttrInit attrs;
      for (const AttrSpec& s : op.attrs) {
        if (onnx && s.kind != AttrKind::kGraph && s.kind != AttrKind::kGraphs && (s.required || n.below(3) == 0)) {
          attrs.push_back(attr(s.name, n.attr(s)));
        }
      }
      std::vector<EvalValue> operands;
      for (const Slot& slot : op.inputs) {
        if (slot.arity == Arity::kOptional && n.below(2) == 0) {
          operands.emplace_back();
        } else {
          for (int64_t k = slot.arity == Arity::kVariadic ? n.below(4) : 1; k > 0; --k) operands.push_back(n.value(slot));
        }
      }
      const std::vector<Value*> none(operands.size(), nullptr);
      Node& node = m.new_node(op, none, static_cast<size_t>(std::max(op.max_outputs < 0 ? 2 : op.max_outputs, 1)),
                              m.attrs(std::move(attrs)));
      EvalOptions options;
      options.memory_cap = 1 << 22;
      eval::Run run(options);
      run.folding = onnx && n.below(2) == 0;
      Call call(node, operands, run);
      try {
        for (const EvalValue& v : apply(kernel, call)) {
          if (v.array() != nullptr && v.array()->size() < 100'000) (void)v.array()->to_tensor()->hash();
        }
        ++counts.worked;
      } catch (const Error& e) {
        ASSERT_NE(e.code(), ErrorCode::kInternal) << op.name << " " << op.since_version << ": " << e.what();
        ++counts.refused;
      } catch (const std::exception& e) {
        FAIL() << op.name << " " << op.since_version << ": " << e.what();
      }
    }
  }
}

TEST(KernelFuzz, NonsenseIsAnError) {
  Counts counts;
  run_nonsense(DialectId::kOnnx, counts);
  EXPECT_GT(counts.worked, 2000u);
  EXPECT_GT(counts.refused, 2000u);
}

// Core ML's parameters are operands, so they are random too.
TEST(KernelFuzz, NonsenseToMilOpsIsAnError) {
  Counts counts;
  run_nonsense(DialectId::kMil, counts);
  EXPECT_GT(counts.worked, 1000u);
  EXPECT_GT(counts.refused, 1000u);
}

}  // namespace
}  // namespace sardonyx::eval
