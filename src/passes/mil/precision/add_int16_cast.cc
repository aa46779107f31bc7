//   x: i32 ── gather ── y: i32    =>    x ── cast<int16> ── gather ── cast<int32> ── y
//
// gather, gather_along_axis, gather_nd, squeeze and topk on 16-bit integers, where the op set has them (from
// iOS 17 on), or the ops that prefer_int16_ops names. Constants that fit become uint16, or int16 if they are
// negative; others stay. Computed indices into axes that are known to be short enough become int16 (or
// target_dtype), or uint16 again if they were cast from that; data that is selected, such as tokens, stays.
// With protect=false, all computed values are assumed to fit, as in coremltools' pass of this name, except
// indices into more than 32767 elements. An op with the attribute keep_int32, by which coremltools' programs
// record the choice of an op_selector, stays as it is. Relaxed: equal if all numbers fit.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "passes/mil/precision/casts.h"

namespace sardonyx::mil {
namespace {

constexpr std::string_view kOps = "gather,gather_along_axis,gather_nd,squeeze,topk";

// The 16-bit type that holds the constant; kUndefined if there is none.
DType narrow(const Tensor& t) {
  int64_t low = std::numeric_limits<int64_t>::max(), high = std::numeric_limits<int64_t>::min();
  const auto include = [&](int32_t v) {
    low = std::min<int64_t>(low, v);
    high = std::max<int64_t>(high, v);
  };
  if (t.is_splat()) {
    include(static_cast<int32_t>(t.as_int(0)));
  } else {
    std::vector<int32_t> piece(static_cast<size_t>(std::min<int64_t>(t.size(), 16384)));
    for (int64_t first = 0; first < t.size(); first += static_cast<int64_t>(piece.size())) {
      const auto n = static_cast<size_t>(std::min<int64_t>(t.size() - first, static_cast<int64_t>(piece.size())));
      t.read(first, std::as_writable_bytes(std::span(piece).first(n)));
      std::for_each(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n), include);
    }
  }
  if (low >= 0 && high <= std::numeric_limits<uint16_t>::max()) return DType::kU16;
  if (low >= std::numeric_limits<int16_t>::min() && high <= std::numeric_limits<int16_t>::max()) return DType::kI16;
  return DType::kUndefined;
}

// Whether indices into the op's axis (into any axis if it has none, as gather_nd) may exceed `most`. With
// `open_is_long`, open sizes may.
bool is_long(Node& n, PassContext& context, int64_t most, bool open_is_long) {
  const Value* x = operand(n, context, "x");
  if (x == nullptr || !x->ranked()) return open_is_long;
  const Dims& dims = n.model().dims();
  const auto exceeds = [&](Dim d) {
    if (d.is_int() || !open_is_long) return d.is_int() && d.value() > most;
    const auto largest = dims.range(d).max;
    return !largest || *largest > most;
  };
  const auto axis = OpReader(n, context.facts).axis_in("axis", x->type()->rank());
  return axis ? exceeds(x->type()->dim(*axis)) : open_is_long && std::ranges::any_of(x->type()->dims(), exceeds);
}

size_t to_16_bits(Graph& top, PassContext& context) {
  const std::string wanted = context.options().text("target_dtype", "int16");
  if (wanted != "int16" && wanted != "uint16")
    throw Error(ErrorCode::kInvalidArgument, fmt::format("target_dtype must be int16 or uint16, not '{}'", wanted));
  const DType computed = wanted == "int16" ? DType::kI16 : DType::kU16;
  const auto ops = split_names(context.options().text("prefer_int16_ops", std::string(kOps)));
  const auto is_kept = [](const Node& n) {
    const Attr* keep = n.attr("keep_int32");
    return keep != nullptr && keep->get<bool>() && *keep->get<bool>();
  };
  const bool assume_small = !context.options().flag("protect", true);
  // topk then also returns its indices in 16 bits.
  const auto overflows_indices = [&](Node& n) {
    return !assume_small && n.is("topk") && is_long(n, context, std::numeric_limits<uint16_t>::max(), true);
  };
  const Rewriter scout(top, context);
  const bool has_16_bits = takes(scout, "cast", DType::kI16) && takes(scout, "cast", DType::kU16);
  return insert_casts(
      top, context,
      {.from = DType::kI32,
       .changes = [&](Node& n) { return has_16_bits && ops.contains(n.op().name) && !is_kept(n) && !overflows_indices(n); },
       .target =
           [&](Node& n, size_t i) {
             const Value& v = *n.input(i);
             const bool is_place = slot_of(n.op(), i, n.num_inputs())->name == "indices";
             DType fits = computed;
             if (v.is_constant()) {
               fits = v.constant()->is_promise() ? DType::kUndefined : narrow(*v.constant());
               if (fits == DType::kUndefined) return fits;
             } else if (is_place ? is_long(n, context, std::numeric_limits<int16_t>::max(), !assume_small) : !assume_small) {
               return DType::kUndefined;
             } else if (const Node* def = v.def(); def != nullptr && def->is("cast")) {
               fits = def->input(0)->dtype() == DType::kU16 ? DType::kU16 : DType::kI16;
             }
             return takes(n, i, fits) ? fits : DType::kUndefined;
           },
       .parameter = [&](Rewriter& b, Node& n, size_t i) -> Value* {
         const Value& v = *n.input(i);
         if (!v.is_constant() || v.constant()->string_values().empty() || v.constant()->string_values()[0] != "int32")
           return nullptr;
         return b.constant(Tensor::strings({}, {n.is("topk") ? "uint16" : "int16"}));
       },
       .named = [&] { return computed; }});
}

}  // namespace

Pass add_int16_cast() {
  return Pass::on_graph(Numerics::kRelaxed, needs({"gather*", "squeeze", "topk"}),
                        [](Graph& top, PassContext& context) {
                          const size_t changed = to_16_bits(top, context);
                          context.log.count("ops on 16-bit integers", changed);
                          return changed > 0;
                        })
      .option("target_dtype", "type of computed values: int16 (the default) or uint16")
      .option("protect", "false: computed numbers are assumed to be small, as in coremltools")
      .option("prefer_int16_ops",
              "ops to change: gather,gather_along_axis,gather_nd,squeeze,topk by default; an empty list means none");
}

}  // namespace sardonyx::mil
