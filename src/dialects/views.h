// Views: what a node is, in either dialect.
//
//   if (auto t = view::Transpose(n)) use(t.x(), t.perm());      // attribute in onnx, constant operand in mil: the view knows
//
// A view is true only when everything that it tells is known: a Transpose whose perm is computed at run time is none. Axes are
// counted from the front. Each class has a make() that spells it in the builder's dialect, or returns null where the dialect (at the model's
// op set) has no such op. Where the dialects mean different things, the view's comment says how.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sardonyx/builder.h"
#include "sardonyx/ir.h"

namespace sardonyx::view {

// The lower-case name under which both dialects have this operator with the same operands and the same meaning ("mul", "erf"), for every
// element type; empty for others. It is mil's name.
std::string_view shared_name(const Op& op);
// The operator of that name in a dialect, at the model's op set; null when the name is none.
const Op* shared_op(Model& m, std::string_view name);

// What all views are.
class NodeView {
 public:
  explicit operator bool() const { return node_ != nullptr; }
  Node& node() const { return *node_; }
  Value* result() const { return node_->result(); }

 protected:
  NodeView() = default;
  Node* node_ = nullptr;  // null: not what was looked for
};

// x with its axes in another order. A missing perm in onnx reverses them.
class Transpose : public NodeView {
 public:
  explicit Transpose(Node& n);
  Value* x() const { return node_->input(0); }
  const std::vector<int64_t>& perm() const { return perm_; }
  static Value* make(Builder& b, Value* x, std::span<const int64_t> perm);

 private:
  std::vector<int64_t> perm_;
};

// The same elements in the same order with other sizes: Reshape, and whatever else does that: Flatten, Squeeze, Unsqueeze / expand_dims,
// squeeze, flatten2d. Sizes may be symbolic: the result's type has them.
class Reshape : public NodeView {
 public:
  explicit Reshape(Node& n);
  Value* x() const { return node_->input(0); }
  // Sizes that are all known, at most one symbolic; nullopt otherwise.
  std::optional<std::vector<int64_t>> shape() const;  // -1 for the symbolic one
  // A reshape proper. At most one size may be -1; 0 is not allowed, since it means different things.
  static Value* make(Builder& b, Value* x, std::span<const int64_t> shape);
};

// Axes of size 1, added.
class ExpandDims : public NodeView {
 public:
  explicit ExpandDims(Node& n);
  Value* x() const { return node_->input(0); }
  const std::vector<int64_t>& axes() const { return axes_; }  // of the result, ascending
  static Value* make(Builder& b, Value* x, std::span<const int64_t> axes);

 private:
  std::vector<int64_t> axes_;
};

// Axes of size 1, taken away. Only where each of them is known to have size 1: mil leaves others alone, onnx fails.
class Squeeze : public NodeView {
 public:
  explicit Squeeze(Node& n);
  Value* x() const { return node_->input(0); }
  const std::vector<int64_t>& axes() const { return axes_; }  // of x, ascending
  static Value* make(Builder& b, Value* x, std::span<const int64_t> axes);

 private:
  std::vector<int64_t> axes_;
};

// Another element type. From float to integer both round towards zero; beyond the range the result is anything in both.
class Cast : public NodeView {
 public:
  explicit Cast(Node& n);
  Value* x() const { return node_->input(0); }
  DType to() const { return to_; }
  static Value* make(Builder& b, Value* x, DType to);

 private:
  DType to_ = DType::kUndefined;
};

// Values behind each other along an axis. mil's interleaving concat is none.
class Concat : public NodeView {
 public:
  explicit Concat(Node& n);
  std::vector<Value*> values() const;
  int64_t axis() const { return axis_; }
  static Value* make(Builder& b, std::span<Value* const> values, int64_t axis);

 private:
  int64_t axis_ = 0;
  size_t first_ = 0;  // operand
};

// Convolution, or with transposed() its gradient, of x [n, c, d...] by a weight. pads: before and after, for each spatial axis.
class Conv : public NodeView {
 public:
  enum class PadMode { kGiven, kSame, kSameLower };  // kSame: the odd element goes behind
  explicit Conv(Node& n);
  Value* x() const { return node_->input(0); }
  Value* weight() const { return node_->input(1); }
  Value* bias() const { return bias_; }  // null: none
  bool transposed() const { return transposed_; }
  int64_t groups() const { return groups_; }
  size_t spatial_rank() const { return strides_.size(); }
  const std::vector<int64_t>& strides() const { return strides_; }
  const std::vector<int64_t>& dilations() const { return dilations_; }
  PadMode pad_mode() const { return pad_mode_; }
  const std::vector<int64_t>& pads_before() const { return before_; }  // zeros unless kGiven
  const std::vector<int64_t>& pads_after() const { return after_; }

 private:
  Value* bias_ = nullptr;
  bool transposed_ = false;
  int64_t groups_ = 1;
  std::vector<int64_t> strides_, dilations_, before_, after_;
  PadMode pad_mode_ = PadMode::kGiven;
};

// (x - mean) / sqrt(variance + epsilon) * gamma + beta per channel, at inference. mil: gamma and beta may be absent, and then are
// 1 and 0.
class BatchNorm : public NodeView {
 public:
  explicit BatchNorm(Node& n);
  Value* x() const { return node_->input(0); }
  Value* gamma() const { return gamma_; }
  Value* beta() const { return beta_; }
  Value* mean() const { return mean_; }
  Value* variance() const { return variance_; }
  double epsilon() const { return epsilon_; }

 private:
  Value *gamma_ = nullptr, *beta_ = nullptr, *mean_ = nullptr, *variance_ = nullptr;
  double epsilon_ = 0;
};

// Elements added around x: before and after, for each axis.
class Pad : public NodeView {
 public:
  enum class Mode { kConstant, kReflect, kEdge };
  explicit Pad(Node& n);
  Value* x() const { return node_->input(0); }
  Mode mode() const { return mode_; }
  double value() const { return value_; }  // for kConstant
  const std::vector<int64_t>& before() const { return before_; }
  const std::vector<int64_t>& after() const { return after_; }

 private:
  Mode mode_ = Mode::kConstant;
  double value_ = 0;
  std::vector<int64_t> before_, after_;
};

// Elements along axes become one.
class Reduce : public NodeView {
 public:
  enum class Kind { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kLogSum, kLogSumExp, kSumSquare };
  explicit Reduce(Node& n);
  Value* x() const { return node_->input(0); }
  Kind kind() const { return kind_; }
  const std::vector<int64_t>& axes() const { return axes_; }  // ascending; all of them where the op says none
  bool keep_dims() const { return keep_dims_; }
  static Value* make(Builder& b, Kind kind, Value* x, std::span<const int64_t> axes, bool keep_dims);

 private:
  Kind kind_ = Kind::kSum;
  std::vector<int64_t> axes_;
  bool keep_dims_ = false;
};

// exp(x) / sum(exp(x)) along one axis. onnx before opset 13 meant all axes from that one on: seen only where it is the last.
class Softmax : public NodeView {
 public:
  explicit Softmax(Node& n);
  Value* x() const { return node_->input(0); }
  int64_t axis() const { return axis_; }
  static Value* make(Builder& b, Value* x, int64_t axis);

 private:
  int64_t axis_ = 0;
};

// The product of the last two axes. mil can transpose them first; onnx cannot, and mil has no product of two vectors.
class MatMul : public NodeView {
 public:
  explicit MatMul(Node& n);
  Value* x() const { return node_->input(0); }
  Value* y() const { return node_->input(1); }
  bool transpose_x() const { return transpose_x_; }
  bool transpose_y() const { return transpose_y_; }
  // Null when the dialect cannot transpose, or has no such product.
  static Value* make(Builder& b, Value* x, Value* y, bool transpose_x = false, bool transpose_y = false);

 private:
  bool transpose_x_ = false, transpose_y_ = false;
};

// x * Phi(x), or its approximation by tanh.
class Gelu : public NodeView {
 public:
  explicit Gelu(Node& n);
  Value* x() const { return node_->input(0); }
  bool tanh() const { return tanh_; }
  static Value* make(Builder& b, Value* x, bool tanh);  // null in onnx before opset 20

 private:
  bool tanh_ = false;
};

}  // namespace sardonyx::view
