#include "eval/mil/mil_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dialects/mil/ops.h"
#include "dialects/onnx/ops.h"

namespace sardonyx::eval {
namespace {

// An op with the same operands in the same order as an ONNX op runs ONNX's kernel on the same call.
#define SX_MIL_KERNEL(name)
#define SX_MIL_SAME(name, onnx_name) \
  void same_##name(Call& c) { kernels::onnx_name(c); }
#include "eval/mil/mil_kernels.def"
#undef SX_MIL_KERNEL
#undef SX_MIL_SAME
#define SX_MIL_SAME(name, onnx_name)
#define SX_MIL_KERNEL(name) \
  void own_##name(Call& c) { mil_kernels::name(Mil(c)); }
#include "eval/mil/mil_kernels.def"
#undef SX_MIL_KERNEL
#undef SX_MIL_SAME

struct FamilyRange {
  uint32_t first, count;
};
constexpr FamilyRange kRanges[] = {
#define SX_FAMILY(name, first, count) {first, count},
#include "dialects/mil/generated/ops_families.gen.inc"
#undef SX_FAMILY
};

// Indexed by the op's position in the dialect's table.
constexpr auto kKernels = [] {
  std::array<Kernel, mil::kOpCount> table{};
  const auto set = [&table](mil::Family family, Kernel kernel) {
    for (uint32_t i = 0; i < kRanges[family].count; ++i) table[kRanges[family].first + i] = kernel;
  };
#define SX_MIL_SAME(name, onnx_name) set(mil::kFamily_##name, same_##name);
#define SX_MIL_KERNEL(name) set(mil::kFamily_##name, own_##name);
#include "eval/mil/mil_kernels.def"
#undef SX_MIL_KERNEL
#undef SX_MIL_SAME
  return table;
}();

}  // namespace

Kernel find_mil_kernel(const Op& op) { return kKernels[static_cast<size_t>(&op - mil::dialect().ops().data())]; }

size_t Mil::find(std::string_view slot) const {
  const auto slots = c.node.op().inputs;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == slot) return i;
  }
  c.fail(fmt::format("there is no operand '{}'", slot));
}

const AttrSpec* Mil::default_of(std::string_view slot) const {
  for (const AttrSpec& s : c.node.op().attrs) {
    if (s.name == slot && s.has_default) return &s;
  }
  return nullptr;
}

bool Mil::has(std::string_view slot) const {
  const auto slots = c.node.op().inputs;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == slot) return c.has(i);
  }
  return false;
}

const Array& Mil::in(std::string_view slot) const {
  if (!has(slot)) c.fail(fmt::format("operand '{}' is missing", slot));
  return c.in(find(slot));
}

std::vector<Array> Mil::list(std::string_view slot) const {
  std::vector<Array> out;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    const Slot* s = slot_of(c.node.op(), i, c.num_inputs());
    if (s != nullptr && s->name == slot) out.push_back(c.in(i));
  }
  return out;
}

int64_t Mil::integer(std::string_view slot, int64_t otherwise) const {
  if (has(slot)) return c.int_scalar(find(slot));
  const AttrSpec* s = default_of(slot);
  return s != nullptr ? s->default_int : otherwise;
}

double Mil::number(std::string_view slot, double otherwise) const {
  if (has(slot)) return c.scalar(find(slot));
  const AttrSpec* s = default_of(slot);
  if (s == nullptr) return otherwise;
  return s->kind == AttrKind::kInt ? static_cast<double>(s->default_int) : s->default_float;
}

std::string Mil::text(std::string_view slot, std::string_view otherwise) const {
  std::string out(otherwise);
  if (has(slot)) {
    out = in(slot).string_at(0);
  } else if (const AttrSpec* s = default_of(slot); s != nullptr && s->kind == AttrKind::kString) {
    out = s->default_string;
  }
  std::ranges::transform(out, out.begin(), [](char ch) { return ch >= 'A' && ch <= 'Z' ? static_cast<char>(ch + 32) : ch; });
  return out;
}

std::vector<int64_t> Mil::ints(std::string_view slot, std::vector<int64_t> otherwise) const {
  if (has(slot)) return load_all<int64_t>(in(slot));
  const AttrSpec* s = default_of(slot);
  if (s == nullptr || s->kind != AttrKind::kInts) return otherwise;
  return {s->default_ints.begin(), s->default_ints.end()};
}

DType Mil::dtype(std::string_view slot) const {
  static constexpr std::pair<std::string_view, DType> kNames[] = {
      {"fp16", DType::kF16},  {"fp32", DType::kF32}, {"fp64", DType::kF64},   {"int8", DType::kI8},   {"int16", DType::kI16},
      {"int32", DType::kI32}, {"uint8", DType::kU8}, {"uint16", DType::kU16}, {"bool", DType::kBool}, {"int64", DType::kI64}};
  const std::string name = text(slot);
  for (const auto& [n, dtype] : kNames) {
    if (n == name) return dtype;
  }
  c.unsupported(fmt::format("unknown dtype '{}'", name));
}

std::vector<Array> Mil::onnx_all(std::string_view op, std::vector<Array> operands, AttrInit attrs, size_t results) const {
  // A node without a graph: kernels read only its attributes and version.
  Model scratch(DialectId::kOnnx);
  const int version = dialect(DialectId::kOnnx).latest_version("");
  std::vector<Value*> none(operands.size(), nullptr);
  Node& n = scratch.new_node(scratch.op("", op, version), none, results, scratch.attrs(std::move(attrs)));
  const Kernel kernel = find_kernel(n.op());
  SX_CHECK(kernel != nullptr, "the evaluator has no " + std::string(op));
  std::vector<EvalValue> values;
  for (Array& a : operands) values.push_back(a.dtype() == DType::kUndefined ? EvalValue() : EvalValue(std::move(a)));
  Call inner(n, values, c.run);
  std::vector<Array> out;
  for (EvalValue& v : apply(kernel, inner)) {
    SX_CHECK(v.array() != nullptr, "a kernel returned no tensor");
    out.push_back(std::move(*v.array()));
  }
  return out;
}

Array Mil::cast(const Array& a, DType to) const {
  return a.dtype() == to ? a : onnx("Cast", {a}, {attr("to", static_cast<int64_t>(to))});
}

}  // namespace sardonyx::eval
