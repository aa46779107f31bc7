// Operand: the argument for a slot of a Core ML op. It is a value, or a number, list, string or flag that
// becomes a constant.
//
//   b.mul(x, y)                       a Value* is used as it is
//   b.mul(x, 0.5)                     a constant of the type that the slot shares with x
//   b.reshape(x, {0, -1, 5})          int32[3]
//   b.cast(x, {.dtype = "fp16"})      string[]; DType::kF16 says the same
//   b.conv(x, tensor)                 a constant with this payload
//   b.linear(x, {.bias = nullptr, .weight = w})       no bias: as if it were left out
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx {
class Value;
}

namespace sardonyx::mil_params {

// For any slot. The classes below accept more forms for their slots.
class Operand {
 public:
  Operand() = default;
  Operand(std::nullptr_t) {}
  Operand(Value* v) : value_(v) {}
  Operand(TensorPtr payload);
  Operand(const Operand&);
  Operand& operator=(const Operand&);
  ~Operand();

  bool is_given() const { return value_ != nullptr || payload_ != nullptr; }
  Value* value() const { return value_; }  // null: see payload()
  const TensorPtr& payload() const { return payload_; }
  // The payload was written as numbers (i64 or f64) and takes the slot's element type.
  bool is_literal() const { return is_literal_; }

 protected:
  void set_literal(TensorPtr payload);

 private:
  Value* value_ = nullptr;
  TensorPtr payload_;
  bool is_literal_ = false;
};

// Integers: sizes, axes, indices.
class Ints : public Operand {
 public:
  using Operand::Operand;
  template <std::integral I>
  Ints(I v) : Ints(std::in_place, static_cast<int64_t>(v)) {}
  Ints(std::initializer_list<int64_t> v) : Ints(std::span(v.begin(), v.size())) {}
  Ints(const std::vector<int64_t>& v) : Ints(std::span(v)) {}
  Ints(std::span<const int64_t> v);

 private:
  Ints(std::in_place_t, int64_t v);
};

// Numbers of any element type.
class Numbers : public Operand {
 public:
  using Operand::Operand;
  Numbers(std::same_as<bool> auto v) : Numbers(std::in_place, v) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Numbers(I v) : Numbers(std::in_place, static_cast<int64_t>(v)) {}
  Numbers(double v);
  Numbers(std::initializer_list<double> v) : Numbers(std::span(v.begin(), v.size())) {}
  Numbers(const std::vector<double>& v) : Numbers(std::span(v)) {}
  Numbers(std::span<const double> v);

 private:
  Numbers(std::in_place_t, bool v);
  Numbers(std::in_place_t, int64_t v);
};

class Flags : public Operand {
 public:
  using Operand::Operand;
  Flags(std::same_as<bool> auto v) : Flags(std::in_place, v) {}
  Flags(std::initializer_list<bool> v) : Flags(std::vector<bool>(v)) {}
  Flags(const std::vector<bool>& v);

 private:
  Flags(std::in_place_t, bool v);
};

class Text : public Operand {
 public:
  using Operand::Operand;
  Text(const char* s) : Text(std::string_view(s)) {}
  Text(const std::string& s) : Text(std::string_view(s)) {}
  Text(std::string_view s);
  Text(DType d);  // its name in Core ML
};

// A new operand for a slot of any op: see MilBuilder::like.
struct Change {
  template <class Kind>
    requires std::derived_from<Kind, Operand>
  Change(std::string_view s, Kind v) : slot(s), given(v) {}
  Change(std::string_view s, Value* v) : slot(s), given(v) {}
  Change(std::string_view s, TensorPtr v) : slot(s), given(std::move(v)) {}
  Change(std::string_view s, std::nullptr_t) : slot(s) {}
  Change(std::string_view s, std::same_as<bool> auto v) : Change(s, Flags(v)) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Change(std::string_view s, I v) : Change(s, Ints(v)) {}
  Change(std::string_view s, const char* v) : Change(s, Text(v)) {}
  Change(std::string_view s, const std::vector<int64_t>& v) : Change(s, Ints(v)) {}

  std::string_view slot;
  Operand given;
};

// A required operand: leaving it out does not compile.
template <class Kind>
struct Required : Kind {
  using Kind::Kind;
  Required() = delete;
  Required(const Kind& given) : Kind(given) {}
};

}  // namespace sardonyx::mil_params
