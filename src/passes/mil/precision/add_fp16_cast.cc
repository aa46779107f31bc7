//   x: f32 ── op ── y: f32    =>    x ── cast<fp16> ── op ── cast<fp32> ── y
//
// Each op that supports half precision computes in it; cast_optimization then drops the casts between
// adjacent ops. An op stays in single precision if one of its constants does not fit (a magnitude above 65504
// and below 1e38; masks of scaled_dot_product_attention count only if a row shows no key), if it is a loop, a
// condition or works on lists or states, if options say so, or if it has the attribute keep_fp32, by which
// coremltools' programs record the choice of an op_selector. So does an op that half precision would make
// wrong, not just less exact (precision/single_ops.h), unless protect=false. From iOS 17 on, slopes of
// activations and epsilons keep single precision, as their ops allow. Small constants that would round to
// zero become the least number of their sign; masks (finite constants from 1e30 on, 1e38 with protect=false)
// become 65504 or -65504. Values masked by constants above 65504 are clipped to that range before softmax and
// its steps, and so are computed masks of attention: otherwise a fully masked row could be -inf and give NaN.
// Options: skip_ops_by_type and skip_ops, which is a list of names, or "auto": those that overflow or
// underflow to zero according to half_ranges.h. Relaxed: half precision has 11 binary digits. After
// coremltools' pass of this name, which protects nothing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "passes/mil/precision/casts.h"
#include "passes/precision/half_masks.h"
#include "passes/precision/half_ranges.h"
#include "passes/precision/single_ops.h"

namespace sardonyx::mil {
namespace {

using namespace precision;

constexpr int kIos17 = 8;
constexpr double kFusedMask = 1e30;  // fuse_attention_masks writes it for the lowest number

constexpr std::array<std::string_view, 12> kNever = {
    "cast",      "while_loop", "cond",        "make_list",  "list_gather",         "list_scatter",
    "list_read", "list_write", "list_length", "read_state", "coreml_update_state", "const"};
constexpr std::array<std::string_view, 4> kWithAlpha = {"elu", "leaky_relu", "prelu", "thresholded_relu"};
constexpr std::array<std::string_view, 5> kWithAlphaAndBeta = {"clamped_relu", "linear_activation", "scaled_tanh",
                                                               "sigmoid_hard", "softplus_parametric"};
constexpr std::array<std::string_view, 3> kWithEpsilon = {"inverse", "log", "rsqrt"};

// From iOS 17 on these parameters may have another type than x.
bool keeps_precision(const Node& n, std::string_view slot) {
  const auto in = [&](const auto& ops) { return std::ranges::find(ops, n.op().name) != ops.end(); };
  if (slot == "alpha") return in(kWithAlpha) || in(kWithAlphaAndBeta);
  if (slot == "beta") return in(kWithAlphaAndBeta);
  return slot == "epsilon" && in(kWithEpsilon);
}

bool is_mask_of_attention(const Node& n, size_t operand) {
  if (!n.is("scaled_dot_product_attention")) return false;
  const Slot* slot = slot_of(n.op(), operand, n.num_inputs());
  return slot != nullptr && slot->name == "attn_mask";
}

// Whether the operand is a constant mask of attention in which numbers beyond half precision only hide keys.
bool hides(const Node& n, size_t operand) {
  return is_mask_of_attention(n, operand) && only_hides(*n.input(operand)->constant());
}

// The constant to cast instead of one with elements that half precision cannot represent; null if the
// constant can stay.
Value* fitted(Rewriter& b, const Value& v, HalfFits& fits) {
  if (!v.is_constant()) return nullptr;
  const HalfFit fit = fits.of(v.constant());
  const TensorPtr finite = fit.saturates || fit.overflows ? saturated(v.constant()) : nullptr;  // see hides()
  const TensorPtr large = saved_from_zero(finite != nullptr ? *finite : *v.constant());
  if (large != nullptr) return b.constant(large);
  return finite != nullptr ? b.constant(finite) : nullptr;
}

// Ops that make NaN of -inf and may have a masked operand: softmax, and the subtraction of a decomposed
// softmax.
std::set<const Node*> masked_sums(Graph& top, const std::unordered_set<const Value*>& masked) {
  std::set<const Node*> found;
  for (Graph* g : graphs_in(top)) {
    for (const Node& n : g->nodes()) {
      const bool sums = n.is("softmax") || n.is("reduce_log_sum_exp") || (n.is("sub") && masked.contains(n.input(1)));
      if (sums && masked.contains(n.input(0))) found.insert(&n);
    }
  }
  return found;
}

Value* clipped(Rewriter& b, Value* x) { return b.clip(x, {.alpha = -kLargestHalf, .beta = kLargestHalf}); }

// The op's name. An op that was not read from a file has that of its first result, as in the file that is
// written.
std::string_view name_of(const Node& n) {
  return n.name().empty() && n.num_results() > 0 ? n.result(0)->name().view() : n.name().view();
}

// ", at net.py:41"; empty if the line is unknown.
std::string source_line(const Model& m, const Node& n) {
  const Provenance& p = m.provenance(n.provenance());
  if (p.sources.empty() || p.sources[0].file.empty()) return {};
  return fmt::format(", at {}:{}", std::filesystem::path(p.sources[0].file).filename().string(), p.sources[0].line);
}

void report(PassContext& context, const Node& n, std::string_view why) {
  if (context.log.explains()) context.log.near_miss(n, fmt::format("half precision: {}{}", why, source_line(n.model(), n)));
}

// Adds given ranges and runs to the bounds.
void observe(HalfRanges& ranges, PassContext& context) {
  const std::string given = context.options().text("ranges", {});
  ranges.tell(parse_ranges(given));
  const int64_t runs = context.options().number("calibration_runs", given.empty() ? 2 : 0);
  if (runs < 0) throw Error(ErrorCode::kInvalidArgument, "calibration_runs cannot be negative");
  if (!ranges.observe_random(static_cast<size_t>(runs), 0)) context.log.count("functions that cannot be run");
}

// Ops that would overflow or underflow to zero.
std::set<const Node*> unfit(Graph& top, PassContext& context, const HalfRanges& ranges) {
  std::set<const Node*> found;
  for (Graph* g : graphs_in(top)) {
    for (const Node& n : g->nodes()) {
      if (n.attr("keep_fp32") != nullptr) continue;
      const HalfVerdict v = ranges.judge(n).verdict;
      if (v != HalfVerdict::kOverflows && v != HalfVerdict::kVanishes) continue;
      found.insert(&n);
      report(context, n, fmt::format("it {}", to_string(v)));
    }
  }
  return found;
}

size_t to_half(Graph& top, PassContext& context) {
  const auto types = split_names(context.options().text("skip_ops_by_type", {}));
  auto names = split_names(context.options().text("skip_ops", {}));
  std::set<const Node*> kept;
  std::optional<HalfRanges> ranges;
  if (names.erase("auto") > 0) {
    ranges.emplace(top, context);
    observe(*ranges, context);
    kept = unfit(top, context, *ranges);
  }
  std::optional<SingleOps> single;
  const bool mixed = Rewriter(top, context).version() >= kIos17;
  const bool protects = context.options().flag("protect", true);
  HalfFits halves(protects ? kFusedMask : kAsGoodAsInfinite);
  const auto fits = [&](const Node& n, size_t i) {
    const Value* v = n.input(i);
    if (v == nullptr || !v->is_constant()) return true;
    const HalfFit fit = halves.of(v->constant());
    return !fit.overflows && !(protects && (fit.saturates || fit.vanishes) && is_factor(n, i));
  };
  const std::unordered_set<const Value*> masked = masked_values(top, halves);
  const std::set<const Node*> sums = masked_sums(top, masked);
  const auto changes = [&](const Node& n) {
    const std::string_view op = n.op().name;
    if (std::ranges::find(kNever, op) != kNever.end() || types.contains(op) || names.contains(name_of(n)) ||
        kept.contains(&n) || (single && single->contains(n)))
      return false;
    if (const Attr* keep = n.attr("keep_fp32"); keep != nullptr && keep->get<bool>() && *keep->get<bool>()) return false;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      if (!fits(n, i) && !(protects && hides(n, i))) return false;
    }
    return true;
  };
  if (protects) {
    single.emplace(top, context);
    if (ranges) single->observe(*ranges);
    // Ranges from real inputs are better evidence than runs on random ones.
    if (context.options().text("ranges", {}).empty() && context.options().number("calibration_runs", 1) > 0)
      single->probe(changes);
    for (const SingleOps::Reason& r : single->reasons()) {
      if (!kept.contains(r.node)) report(context, *r.node, r.why);
    }
  }
  return insert_casts(top, context,
                      {.from = DType::kF32,
                       .changes = changes,
                       .target =
                           [&](Node& n, size_t i) {
                             const Slot* slot = slot_of(n.op(), i, n.num_inputs());
                             const bool stays = !takes(n, i, DType::kF16) || (mixed && keeps_precision(n, slot->name)) ||
                                                (single && single->contains(n, i));
                             return stays ? DType::kUndefined : DType::kF16;
                           },
                       .prepare = [&](Rewriter& b, Value& v, DType) { return fitted(b, v, halves); },
                       .guard =
                           [&](Rewriter& b, Node& n, size_t i, Value* x) {
                             const bool is_sum = sums.contains(&n) && (i == 0 || n.is("sub"));
                             const bool is_factor = protects && n.is("mul") && masked.contains(n.input(i));
                             const bool masks = protects && is_mask_of_attention(n, i) && !n.input(i)->is_constant();
                             return is_sum || is_factor || masks ? clipped(b, x) : x;
                           },
                       .named = [] { return DType::kF16; }});
}

}  // namespace

Pass add_fp16_cast() {
  return Pass::on_graph(Numerics::kRelaxed,
                        [](Graph& top, PassContext& context) {
                          const size_t changed = to_half(top, context);
                          context.log.count("ops in half precision", changed);
                          return changed > 0;
                        })
      .option("skip_ops_by_type", "types of ops that stay in single precision: mul,softmax")
      .option("skip_ops", "names of ops that stay in single precision, or auto: those that would overflow or underflow")
      .option("protect", "false: also ops that half precision makes wrong, such as sines of large angles, as in coremltools")
      .option("ranges", "for auto: observed ranges of values, one per line: lowest, highest[/least], name")
      .option("calibration_runs", "for auto: number of runs on random inputs (2, or 0 if ranges are given)");
}

}  // namespace sardonyx::mil
