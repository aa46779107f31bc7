#include "sardonyx/mil_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "dialects/mil/infer/rule_util.h"
#include "dialects/mil/ops.h"
#include "sardonyx/error.h"

namespace sardonyx {

// ---------------------------------------------------------------------------------------------------------------------
// Operands

namespace mil_params {

Operand::Operand(TensorPtr payload) : payload_(std::move(payload)) {}
Operand::Operand(const Operand&) = default;
Operand& Operand::operator=(const Operand&) = default;
Operand::~Operand() = default;

void Operand::set_literal(TensorPtr payload) {
  payload_ = std::move(payload);
  is_literal_ = true;
}

Ints::Ints(std::in_place_t, int64_t v) { set_literal(Tensor::scalar(v)); }
Ints::Ints(std::span<const int64_t> v) { set_literal(Tensor::vector(v)); }

Numbers::Numbers(std::in_place_t, bool v) : Operand(Tensor::full(DType::kBool, {}, v)) {}
Numbers::Numbers(std::in_place_t, int64_t v) { set_literal(Tensor::scalar(v)); }
Numbers::Numbers(double v) { set_literal(Tensor::full(DType::kF64, {}, v)); }
Numbers::Numbers(std::span<const double> v) {
  set_literal(Tensor::of<double>(DType::kF64, {static_cast<int64_t>(v.size())}, v));
}

Flags::Flags(std::in_place_t, bool v) : Operand(Tensor::full(DType::kBool, {}, v)) {}
Flags::Flags(const std::vector<bool>& v)
    : Operand(Tensor::of<uint8_t>(DType::kBool, {static_cast<int64_t>(v.size())}, std::vector<uint8_t>(v.begin(), v.end()))) {}

Text::Text(std::string_view s) : Operand(Tensor::strings({}, {std::string(s)})) {}
Text::Text(DType d) : Text(mil::dtype_name(d)) {}

}  // namespace mil_params

// ---------------------------------------------------------------------------------------------------------------------
// Nodes

namespace {

bool may_hold(const Slot& slot, DType d) { return slot.types.any || (slot.types.tensor >> static_cast<int>(d) & 1) != 0; }

// Converts a literal to another element type.
TensorPtr converted(const Tensor& literal, DType to, std::string_view op, std::string_view slot) {
  std::vector<std::byte> bytes(byte_size(to, static_cast<uint64_t>(literal.size())));
  for (int64_t i = 0; i < literal.size(); ++i) {
    const double v = literal.as_double(i);
    if (is_integer(to)) {
      const double high = std::ldexp(1, bit_width(to) - (is_signed(to) ? 1 : 0)), low = is_signed(to) ? -high : 0;
      if (v != std::floor(v) || v < low || v >= high)
        throw Error(
            ErrorCode::kInvalidArgument,
            fmt::format("the operand '{}' of the Core ML op {} is {}, which cannot hold {}", slot, op, to_string(to), v));
    }
    encode_element(to, bytes.data(), i, v);
  }
  return Tensor::own(to, {literal.shape().begin(), literal.shape().end()}, std::move(bytes));
}

// Gathers operands by slot name and makes one node.
class OpMaker {
 public:
  // Throws kUnsupported if the function's op set lacks the op.
  OpMaker(MilBuilder& b, mil::Family family) : builder_(b), op_(mil::find(family, b.version())) {
    if (op_ == nullptr) {
      const Op& first = *mil::find(family, mil::kNewestVersion);
      throw Error(ErrorCode::kUnsupported, fmt::format("the Core ML op {} needs a newer op set than the function's {}",
                                                       first.name, mil::opset_name(b.version())));
    }
    placed_.resize(op_->inputs.size());
  }
  // Starts with the operands of n.
  OpMaker(MilBuilder& b, const Node& n)
      : builder_(b), op_(&n.op()), attrs_(n.attrs().items().begin(), n.attrs().items().end()) {
    SX_CHECK(n.bodies().empty(), "an op with blocks cannot be rebuilt");
    placed_.resize(op_->inputs.size());
    own_.resize(op_->inputs.size());
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      if (i >= placed_.size() || op_->inputs[i].arity == Arity::kVariadic) {
        lists_.push_back(n.input(i));
      } else if (n.input(i) != nullptr) {
        own_[i] = n.input(i);
        placed_[i] = &own_[i];
      }
    }
  }

  void in(std::string_view slot, const mil_params::Operand& given) {
    if (given.is_given()) placed_[place(slot)] = &given;
  }
  void change(const mil_params::Change& c) { placed_[place(c.slot)] = c.given.is_given() ? &c.given : nullptr; }
  void list(std::string_view slot, std::span<Value* const> values) {
    if (values.empty()) return;
    place(slot);  // lists come last, in slot order
    lists_.insert(lists_.end(), values.begin(), values.end());
  }
  void body(std::string_view name, Graph& graph) { bodies_.push_back({builder_.model().name(name), &graph}); }

  Value* one() { return many(1).result(0); }
  Node& many(size_t num_results) {
    std::vector<Value*> inputs;
    for (size_t i = 0; i < placed_.size() && op_->inputs[i].arity != Arity::kVariadic; ++i)
      inputs.push_back(placed_[i] != nullptr ? value(op_->inputs[i], *placed_[i]) : nullptr);
    while (lists_.empty() && !inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
    inputs.insert(inputs.end(), lists_.begin(), lists_.end());
    return builder_.make(*op_, inputs, num_results, std::move(attrs_), bodies_);
  }

 private:
  size_t place(std::string_view slot) const {
    const auto at = std::ranges::find(op_->inputs, slot, &Slot::name);
    if (at == op_->inputs.end()) {
      throw Error(ErrorCode::kUnsupported, fmt::format("the Core ML op {} has no operand '{}' in the function's op set {}",
                                                       op_->name, slot, mil::opset_name(builder_.version())));
    }
    return static_cast<size_t>(at - op_->inputs.begin());
  }

  Value* value(const Slot& slot, const mil_params::Operand& given) const {
    if (given.value() != nullptr) return given.value();
    if (!given.is_literal()) return builder_.constant(given.payload());
    return builder_.constant(converted(*given.payload(), dtype_for(slot, *given.payload()), op_->name, slot.name));
  }

  // The element type of a numeric literal. In this order: the type of the operand that it replaces, or of
  // another operand with the same type variable; the only type that the slot takes; int32 for integers; the
  // first operand's type if that is a float type; a float type that the slot takes.
  DType dtype_for(const Slot& slot, const Tensor& literal) const {
    const auto at = static_cast<size_t>(&slot - op_->inputs.data());
    if (at < own_.size() && own_[at].value() != nullptr) return own_[at].value()->dtype();
    DType first = DType::kUndefined;
    for (size_t i = 0; i < placed_.size(); ++i) {
      if (placed_[i] == nullptr || placed_[i]->is_literal()) continue;
      const Value* v = placed_[i]->value();
      const DType d = v != nullptr ? v->dtype() : placed_[i]->payload()->dtype();
      if (!slot.type_var.empty() && op_->inputs[i].type_var == slot.type_var && d != DType::kUndefined) return d;
      if (first == DType::kUndefined) first = d;
    }
    if (std::has_single_bit(slot.types.tensor)) return static_cast<DType>(std::countr_zero(slot.types.tensor));
    if (literal.dtype() == DType::kI64 && may_hold(slot, DType::kI32)) return DType::kI32;
    for (DType d : {first, DType::kF32, DType::kF16}) {
      if (is_float(d) && may_hold(slot, d)) return d;
    }
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the operand '{}' of the Core ML op {} takes no plain number: give a "
                                                         "constant of its element type",
                                                         slot.name, op_->name));
  }

  MilBuilder& builder_;
  const Op* op_;
  std::vector<const mil_params::Operand*> placed_;  // by slot; the operands outlive the maker
  std::vector<Value*> lists_;
  std::vector<Body> bodies_;
  AttrInit attrs_;
  std::vector<mil_params::Operand> own_;  // the operands of the op that is changed
};

}  // namespace

int MilBuilder::version() const {
  const Function* f = graph().function();
  for (const Graph* g = &graph(); f == nullptr && g->enclosing() != nullptr; g = g->enclosing()) f = g->enclosing()->function();
  const int named = f != nullptr ? mil::opset_version(f->mil_opset) : 0;
  return named != 0 ? named : mil::kNewestVersion;
}

const Op* MilBuilder::find(std::string_view op) const { return mil::dialect().find("", op, version()); }

Value* MilBuilder::i32s(std::span<const int64_t> v) {
  const std::vector<int32_t> narrow(v.begin(), v.end());
  return constant(Tensor::of<int32_t>(DType::kI32, {static_cast<int64_t>(v.size())}, narrow));
}

Value* MilBuilder::like(const Node& n, std::initializer_list<mil_params::Change> changes) {
  OpMaker m(*this, n);
  for (const mil_params::Change& c : changes) m.change(c);
  return m.many(n.num_results()).result(0);
}

#include "dialects/mil/generated/builder_definitions.gen.inc"

}  // namespace sardonyx
