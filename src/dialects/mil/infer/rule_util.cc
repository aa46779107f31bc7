#include "dialects/mil/infer/rule_util.h"

#include <algorithm>

#include "dialects/mil/ops.h"

namespace sardonyx::mil::rules {
namespace {

const AttrSpec* default_of(const InferContext& c, std::string_view slot) {
  for (const AttrSpec& s : c.op().attrs) {
    if (s.name == slot && s.has_default) return &s;
  }
  return nullptr;
}

}  // namespace

size_t operand(const InferContext& c, std::string_view slot) {
  const auto slots = c.op().inputs;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == slot) return c.has_input(i) ? i : kNoSlot;
  }
  return kNoSlot;
}

Range list(const InferContext& c, std::string_view slot) {
  Range r;
  bool found = false;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    const Slot* s = slot_of(c.op(), i, c.num_inputs());
    if (s == nullptr || s->name != slot) continue;
    if (!found) r.first = i;
    found = true;
    r.last = i + 1;
  }
  return r;
}

std::optional<int64_t> param_int(const InferContext& c, std::string_view slot) {
  if (const size_t i = operand(c, slot); i != kNoSlot) return scalar_int(c, i);
  const AttrSpec* s = default_of(c, slot);
  return s != nullptr && s->kind == AttrKind::kInt ? std::optional(s->default_int) : std::nullopt;
}

std::optional<Dim> param_dim(const InferContext& c, std::string_view slot) {
  const size_t i = operand(c, slot);
  if (i == kNoSlot) return std::nullopt;
  return scalar_value(c, i);
}

bool param_bool(const InferContext& c, std::string_view slot, bool otherwise) {
  return param_int(c, slot).value_or(otherwise ? 1 : 0) != 0;
}

std::optional<double> param_float(const InferContext& c, std::string_view slot) {
  if (const size_t i = operand(c, slot); i != kNoSlot) {
    const TensorPtr t = c.constant(i);
    return t != nullptr && t->size() == 1 && t->dtype() != DType::kString ? std::optional(t->as_double(0)) : std::nullopt;
  }
  const AttrSpec* s = default_of(c, slot);
  if (s == nullptr) return std::nullopt;
  return s->kind == AttrKind::kFloat ? s->default_float : static_cast<double>(s->default_int);
}

std::optional<std::string> param_string(const InferContext& c, std::string_view slot) {
  std::string text;
  if (const size_t i = operand(c, slot); i != kNoSlot) {
    const TensorPtr t = c.constant(i);
    if (t == nullptr || t->string_values().empty()) return std::nullopt;
    text = t->string_values()[0];
  } else {
    const AttrSpec* s = default_of(c, slot);
    if (s == nullptr || s->kind != AttrKind::kString) return std::nullopt;
    text = s->default_string;
  }
  std::ranges::transform(text, text.begin(), [](char ch) { return ch >= 'A' && ch <= 'Z' ? static_cast<char>(ch + 32) : ch; });
  return text;
}

std::optional<std::vector<int64_t>> param_ints(const InferContext& c, std::string_view slot) {
  if (const size_t i = operand(c, slot); i != kNoSlot) return c.ints(i);
  const AttrSpec* s = default_of(c, slot);
  if (s == nullptr || s->kind != AttrKind::kInts) return std::nullopt;
  return std::vector<int64_t>(s->default_ints.begin(), s->default_ints.end());
}

DType param_dtype(const InferContext& c, std::string_view slot) {
  const auto name = param_string(c, slot);
  if (!name) return DType::kUndefined;
  const DType dtype = dtype_named(*name);
  if (dtype == DType::kUndefined) c.fail("'" + *name + "' is not an element type");
  return dtype;
}

}  // namespace sardonyx::mil::rules
