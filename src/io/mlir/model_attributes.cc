// Attributes of the generic form in the kinds of the model.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "io/mlir/module_builder.h"
#include "io/mlir/operations.h"

namespace sardonyx::mlir {
namespace {

constexpr int64_t kMostInts = 1 << 20;

// Lists of integers, also as a list of attributes, a tensor of rank 1 or booleans.
std::optional<Attr::Ints> as_ints(const Attr& a) {
  if (const auto* ints = a.get<Attr::Ints>()) return *ints;
  if (const auto* t = a.get<TensorPtr>()) return (*t)->rank() == 1 ? (*t)->to_ints(kMostInts) : std::nullopt;
  const auto* list = a.get<AttrList>();
  if (list == nullptr) return std::nullopt;
  Attr::Ints out;
  for (const Attr& item : *list) {
    if (const auto* b = item.get<bool>()) {
      out.push_back(*b ? 1 : 0);
    } else if (const auto* i = item.get<int64_t>()) {
      out.push_back(*i);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<Attr> as_strings(const Attr& a) {
  if (a.get<Attr::Strings>() != nullptr) return a;
  const auto* list = a.get<AttrList>();
  if (list == nullptr) return std::nullopt;
  Attr::Strings out;
  for (const Attr& item : *list) {
    const auto* s = item.get<std::string>();
    if (s == nullptr) return std::nullopt;
    out.push_back(*s);
  }
  return Attr(std::move(out));
}

std::optional<Attr> as_struct(const Attr& a, std::span<const Field> fields) {
  const auto* given = a.get<AttrDict>();
  if (given == nullptr) return std::nullopt;
  AttrDict out;
  for (const Field& f : fields) {
    const auto at = std::ranges::find(*given, f.name, [](const auto& item) { return std::string_view(item.first); });
    Attr value = f.list ? Attr(Attr::Ints()) : Attr(int64_t{0});
    if (at != given->end()) {
      if (f.list) {
        auto ints = as_ints(at->second);
        if (!ints) return std::nullopt;
        value = Attr(std::move(*ints));
      } else if (at->second.get<int64_t>() != nullptr) {
        value = at->second;
      } else {
        return std::nullopt;
      }
    }
    out.emplace_back(f.name, std::move(value));
  }
  const auto known = [&](const auto& item) { return std::ranges::find(fields, item.first, &Field::name) != fields.end(); };
  return std::ranges::all_of(*given, known) ? std::optional(Attr(std::move(out))) : std::nullopt;
}

Attr zero(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt: return Attr(int64_t{0});
    case AttrKind::kInts: return Attr(Attr::Ints());
    case AttrKind::kBool: return Attr(false);
    case AttrKind::kStrings: return Attr(Attr::Strings());
    case AttrKind::kDict: return Attr(AttrDict());
    default: return Attr(std::string());
  }
}

// The attribute in the kind of the rule; nullopt if it cannot be.
std::optional<Attr> as_kind(const Attr& a, const AttrRule& rule) {
  switch (rule.kind) {
    case AttrKind::kAny: {
      const auto* dict = a.get<AttrDict>();
      const bool nothing = dict != nullptr && dict->empty() && rule.otherwise == AttrDefault::kZero;
      return nothing ? zero(rule.kind) : a;
    }
    case AttrKind::kInt: return a.get<int64_t>() != nullptr ? std::optional(a) : std::nullopt;
    case AttrKind::kBool:
      if (const auto* i = a.get<int64_t>()) return Attr(*i != 0);
      return a.get<bool>() != nullptr ? std::optional(a) : std::nullopt;
    case AttrKind::kString: return a.get<std::string>() != nullptr ? std::optional(a) : std::nullopt;
    case AttrKind::kTensor: return a.get<TensorPtr>() != nullptr ? std::optional(a) : std::nullopt;
    case AttrKind::kDict: return a.get<AttrDict>() != nullptr ? std::optional(a) : std::nullopt;
    case AttrKind::kStrings: return as_strings(a);
    case AttrKind::kStruct: return as_struct(a, rule.fields);
    case AttrKind::kInts: {
      auto ints = as_ints(a);
      return ints ? std::optional(Attr(std::move(*ints))) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::string_view show(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt: return "an integer";
    case AttrKind::kInts: return "a list of integers";
    case AttrKind::kBool: return "true or false";
    case AttrKind::kString: return "a string or a keyword";
    case AttrKind::kStrings: return "a list of strings";
    case AttrKind::kTensor: return "dense elements";
    case AttrKind::kDict: return "a dictionary";
    case AttrKind::kStruct: return "the structure of this operation";
    case AttrKind::kAny: break;
  }
  return "an attribute";
}

// The number of axes of a window: the spatial ones of a convolution, else those of the first operand.
size_t window_rank(const AttrInit& attributes, std::span<Value* const> operands) {
  const auto numbers = std::ranges::find(attributes, "dimension_numbers", &NamedAttr::name);
  if (numbers != attributes.end()) {
    if (const auto* fields = numbers->value.get<AttrDict>()) {
      for (const auto& [name, value] : *fields) {
        if (name == "input_spatial_dimensions" && value.get<Attr::Ints>() != nullptr) return value.get<Attr::Ints>()->size();
      }
    }
  }
  return !operands.empty() && operands[0]->ranked() ? operands[0]->type()->rank() : 0;
}

// How the elements of a comparison are compared when the module does not say it.
std::string_view comparison_of(std::span<Value* const> operands) {
  const DType t = operands.empty() ? DType::kUndefined : operands[0]->dtype();
  if (is_signed(t)) return "SIGNED";
  return is_float(t) || is_complex(t) ? "FLOAT" : "UNSIGNED";
}

std::optional<Attr> default_of(const AttrRule& rule, const AttrInit& attributes, std::span<Value* const> operands) {
  switch (rule.otherwise) {
    case AttrDefault::kRequired:
    case AttrDefault::kAbsent: break;
    case AttrDefault::kZero:
      return rule.kind == AttrKind::kStruct ? as_struct(Attr(AttrDict()), rule.fields) : Attr(zero(rule.kind));
    case AttrDefault::kOne: return Attr(int64_t{1});
    case AttrDefault::kTrue: return Attr(true);
    case AttrDefault::kLast: return Attr(int64_t{-1});
    case AttrDefault::kOnes: return Attr(Attr::Ints(window_rank(attributes, operands), 1));
    case AttrDefault::kZeros: return Attr(Attr::Ints(window_rank(attributes, operands), 0));
    case AttrDefault::kNoPad: {
      const auto axes = static_cast<int64_t>(window_rank(attributes, operands));
      return Attr(Tensor::full(DType::kI64, {axes, 2}, 0));
    }
    case AttrDefault::kCompare: return Attr(comparison_of(operands));
  }
  return std::nullopt;
}

}  // namespace

AttrInit model_attributes(std::string_view operation, AttrInit given, std::span<Value* const> operands) {
  std::erase_if(given, [](const NamedAttr& a) { return is_dropped_attribute(a.name); });
  const Operation* row = find_operation(operation);
  if (row == nullptr) return given;
  for (const AttrRule& rule : row->attributes) {
    auto at = std::ranges::find(given, rule.name, &NamedAttr::name);
    if (at != given.end() && rule.otherwise == AttrDefault::kCompare && at->value == Attr("NOTYPE")) {
      given.erase(at);
      at = given.end();
    }
    if (at != given.end()) {
      auto value = as_kind(at->value, rule);
      if (!value) {
        throw Error(ErrorCode::kInvalidModel,
                    fmt::format("the attribute '{}' of {} has to be {}", rule.name, operation, show(rule.kind)));
      }
      at->value = std::move(*value);
    } else if (auto value = default_of(rule, given, operands)) {
      given.emplace_back(rule.name, std::move(*value));
    } else if (rule.otherwise == AttrDefault::kRequired) {
      throw Error(ErrorCode::kInvalidModel, fmt::format("{} needs the attribute '{}'", operation, rule.name));
    }
  }
  return given;
}

}  // namespace sardonyx::mlir
