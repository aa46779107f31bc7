//   x ── MatMul(W) ── y   =>   x ── MatMul(DequantizeLinear(codes, scales)) ── y
//
// Stores constant weights as integers of 8 or 4 bits, from which DequantizeLinear makes the floats that
// products read. Weights are those of MatMul (either side), Gemm (B), Conv and ConvTranspose, the tables of
// Gather, and W and R of LSTM, GRU and RNN. Integers of 8 bits have a scale for each column, channel or row
// of a table; those of 4 bits for each block of 32 along the axis that is summed over, or for each channel
// where that axis is shorter; compress/least_squares.h chooses them. A weight with several users is stored
// once, also where a Transpose or Cast stands before some. What a Loop or Scan repeats is dequantized before
// it. In f16 and bf16, weights of f32 are rounded, and a Cast makes the floats. Weights of bf16 become
// integers with scales of f32, since runtimes dequantize to f32 and f16 only; a Cast follows.
//
// With runs to learn from, codes of MatMul, Gemm and Conv in the main graph depend on what they multiply
// there (compress/error_feedback.h; a convolution is a product with what its window covers). For a weight
// with k rows that is known as k * k sums, so as many weights as have 1 GiB of these together learn from
// the same runs of the model: one after another would repeat the runs for each weight, and all at once
// would not fit into memory. Later ones see the earlier ones narrowed. Other weights, those that something
// else reads as well, and those with more rows are encoded by what they are themselves.
//
// With a target, products and tables whose weights have blocks of 4 bits become operators of onnxruntime
// (packed_weights.cc), which need no newer opset.
//
// If all weights are more than 1 GiB, codes that learn from no runs are computed while they are written, so
// that one weight at a time is in memory.
//
// What stops it: few elements; a user other than these operands; fewer than two axes; elements that are
// infinite or NaN. Relaxed: results change by what fewer bits lose.
#include "passes/onnx/quantize/quantize_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "passes/calibration.h"
#include "passes/compress/encode.h"
#include "passes/compress/weights.h"
#include "passes/onnx/quantize/packed_weights.h"
#include "passes/onnx/quantize/weight_inputs.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using compress::Axes;

constexpr int kBlockwiseOpset = 21;  // which added 4 bits as well
constexpr int kHalfOpset = 19;       // whose DequantizeLinear makes f16
constexpr int kChannelOpset = 13;
constexpr int kNarrowIrVersion = 10;             // the first that knows types of 4 bits
constexpr int64_t kMostSums = int64_t{1} << 28;  // in single precision, of what weights are multiplied with

struct Wanted {
  DType type = DType::kI8;
  int64_t block = 0;  // 0: a scale for each channel
  int64_t min_elements = 1024;
  const Runtime* runtime = nullptr;  // whose own operators may be used; null: none

  int opset_for(DType weights) const {
    if (is_float(type)) return type == DType::kF16 ? 0 : kChannelOpset;
    if (bit_width(type) < 8 || block > 0) return kBlockwiseOpset;
    return weights == DType::kF16 ? kHalfOpset : kChannelOpset;
  }
  // Whether the runtime loads the opset that DequantizeLinear needs.
  bool can_dequantize(DType weights) const { return runtime == nullptr || opset_for(weights) <= runtime->opset; }
};

Wanted wanted_by(const PassOptions& options) {
  Wanted wanted;
  const std::string type = options.text("type", "int8");
  const auto is = [&](std::string_view name, DType t) {
    if (type == name) wanted.type = t;
    return type == name;
  };
  if (!is("int8", DType::kI8) && !is("uint8", DType::kU8) && !is("int4", DType::kI4) && !is("uint4", DType::kU4) &&
      !is("f16", DType::kF16) && !is("bf16", DType::kBF16))
    throw Error(ErrorCode::kInvalidArgument, fmt::format("weights cannot be stored as '{}'", type),
                {"expected int8, uint8, int4, uint4, f16 or bf16"});
  wanted.block = options.number("block_size", bit_width(wanted.type) < 8 ? 32 : 0);
  wanted.min_elements = options.number("min_elements", wanted.min_elements);
  if (const std::string target = options.text("target", ""); !target.empty()) wanted.runtime = &runtime_named(target);
  if (wanted.block < 0 || wanted.min_elements < 0)
    throw Error(ErrorCode::kInvalidArgument, "block_size and min_elements of quantize_weights are not negative");
  return wanted;
}

// --- the axes of a weight

// How the node reads operand `slot`; nullopt if that is not a weight.
std::optional<Axes> axes_of(const Node& n, size_t slot, size_t rank) {
  if (n.unchecked()) return std::nullopt;
  if (n.is("MatMul")) return slot == 0 ? Axes{false, rank - 1, rank - 2} : Axes{false, rank - 2, rank - 1};
  if (n.is("Gemm") && slot == 1) {
    const auto transposed = int_attr(n, "transB");
    if (!transposed) return std::nullopt;
    return *transposed != 0 ? Axes{false, 1, 0} : Axes{false, 0, 1};
  }
  if (n.is("Conv") && slot == 1) return Axes{false, 1, 0};
  if (n.is("ConvTranspose") && slot == 1) return Axes{false, 0, 1};
  if ((n.is("LSTM") || n.is("GRU") || n.is("RNN")) && (slot == 1 || slot == 2) && rank == 3) return Axes{false, 2, 1};
  if (n.is("Gather") && slot == 0) {
    const auto attr = int_attr(n, "axis");
    if (!attr) return std::nullopt;
    const size_t axis = static_cast<size_t>(*attr < 0 ? *attr + static_cast<int64_t>(rank) : *attr);
    return Axes{true, axis == rank - 1 ? rank - 2 : rank - 1, axis};
  }
  return std::nullopt;
}

// Whether the node only moves or rounds the elements of a weight.
bool is_view(const Node& n) {
  return !n.unchecked() && (n.is("Transpose") || n.is("Identity") || (n.is("Cast") && is_float(n.result()->dtype())));
}

// The axes of the operand of a view for those of its result.
std::optional<Axes> axes_before(const Node& view, Axes axes, size_t rank) {
  if (!view.is("Transpose")) return axes;
  if (view.attr("perm") == nullptr) return Axes{axes.is_table, rank - 1 - axes.summed, rank - 1 - axes.channel};
  const auto perm = ints_attr(view, "perm");
  if (!perm) return std::nullopt;
  return Axes{axes.is_table, static_cast<size_t>((*perm)[axes.summed]), static_cast<size_t>((*perm)[axes.channel])};
}

// A node that reads a weight, and by which axes of it.
struct Reader {
  const Use* use;
  Axes axes;
};

// Collects the users of v, behind at most `views` views. False if one of them reads it as something else.
bool find_readers(const Value& v, size_t rank, std::vector<Reader>& readers, int views = 2) {
  for (const Use& u : v.uses()) {
    const Node& n = *u.owner;
    if (n.is_boundary()) return false;
    if (views == 0 || !is_view(n)) {
      const auto axes = axes_of(n, static_cast<size_t>(&u - n.operands().data()), rank);
      if (!axes) return false;
      readers.push_back({&u, *axes});
      continue;
    }
    const size_t first = readers.size();
    if (!find_readers(*n.result(), rank, readers, views - 1)) return false;
    for (Reader& r : std::span(readers).subspan(first)) {
      const auto axes = axes_before(n, r.axes, rank);
      if (!axes) return false;
      r.axes = *axes;
    }
  }
  return true;
}

// The boxes that share a scale, and the shape of the scales.
struct Blocks {
  int64_t axis = 0;
  int64_t size = 0;  // 0: one box for each index of the axis
  compress::Grouping grouping;
  std::vector<int64_t> scale_shape;
};

Blocks blocks_of(const Tensor& t, const Axes& axes, int64_t block) {
  const auto shape = t.shape();
  const bool in_blocks = block > 0 && shape[axes.summed] >= block;
  const size_t axis = in_blocks ? axes.summed : axes.channel;
  std::vector<int64_t> extents(shape.begin(), shape.end());
  if (in_blocks) std::ranges::fill(extents, 1);
  extents[axis] = in_blocks ? block : 1;
  compress::Grouping grouping(shape, std::move(extents));
  std::vector<int64_t> scales = in_blocks ? grouping.counts() : std::vector<int64_t>{shape[axis]};
  return {static_cast<int64_t>(axis), in_blocks ? block : 0, std::move(grouping), std::move(scales)};
}

// A constant to narrow.
struct Weight {
  Value* value;
  Axes axes;
  std::vector<Vectors> inputs = {};  // of all its readers; empty: not known
};

// --- the graph

// The graph in which v is dequantized: no body that a loop repeats.
Graph& home_of(const Value& v) {
  Graph* g = v.graph();
  while (g->parent() != nullptr && (g->parent()->is("Loop") || g->parent()->is("Scan"))) g = g->enclosing();
  return *g;
}

class WeightQuantizer {
 public:
  WeightQuantizer(Graph& top, PassContext& context)
      : top_(top),
        context_(context),
        wanted_(wanted_by(context.options())),
        filter_{wanted_.min_elements, split_names(context.options().text("only", ""), '\n')} {}

  bool run() {
    std::vector<Weight> weights;
    for (Value* v : compress::large_constants(top_, filter_)) add(*v, weights);
    size_t bytes = 0;
    for (const Weight& w : weights) bytes += w.value->constant()->byte_size();
    are_many_ = bytes > compress::kManyBytes;
    for (size_t first = 0, end = 0; first < weights.size(); first = end) {
      end = learn(weights, first);
      for (const Weight& w : std::span(weights).subspan(first, end - first)) narrow(w);
    }
    return changed_;
  }

 private:
  static void add(Value& v, std::vector<Weight>& weights) {
    std::vector<Reader> readers;
    if (!find_readers(v, v.constant()->rank(), readers) || readers.empty()) return;
    const auto order = [](const Reader& r) { return r.axes.order(); };
    weights.push_back({.value = &v, .axes = std::ranges::min(readers, {}, order).axes});
  }

  // For a weight of another rank than two, only where nothing turns it: then its rows are in the same order.
  void find_inputs(Weight& w) const {
    if (size_of(w) * size_of(w) > kMostSums) return;
    const size_t rank = w.value->constant()->rank();
    std::vector<Reader> readers;
    find_readers(*w.value, rank, readers);
    for (const Reader& r : readers) {
      const bool is_known = r.axes.order() == w.axes.order() && r.use->owner->graph() == &context_.model.graph() &&
                            (rank == 2 || (r.use->value == w.value && r.use->owner->is("Conv")));
      const auto vectors = is_known ? vectors_of(*r.use) : std::nullopt;
      if (!vectors) return w.inputs.clear();
      w.inputs.push_back(*vectors);
    }
  }

  // Learns what weights from `first` on are multiplied with. Returns the end of those that it looked at.
  size_t learn(std::vector<Weight>& weights, size_t first) {
    if (context_.calibration() == nullptr || is_float(wanted_.type)) return weights.size();
    moments_.clear();
    std::vector<Vectors> observed;
    std::vector<const Value*> values;
    int64_t elements = 0;
    size_t end = first;
    for (; end < weights.size() && (end == first || elements < kMostSums); ++end) {
      find_inputs(weights[end]);  // not earlier: narrowing others may replace these values
      for (const Vectors& v : weights[end].inputs) {
        const int64_t size = size_of(weights[end]);
        if (!moments_.try_emplace(v, size).second) continue;
        elements += size * size;
        observed.push_back(v);
        values.push_back(v.value);
      }
    }
    if (values.empty()) return end;
    observe_values(context_.model, values, *context_.calibration(),
                   [&](size_t i, const Array& x) { add_vectors(observed[i], x, moments_.at(observed[i])); });
    return end;
  }

  static int64_t size_of(const Weight& w) {
    const Tensor& t = *w.value->constant();
    return t.size() / t.shape()[w.axes.channel];
  }

  // The moments of all inputs of a weight; null if they are not known.
  const compress::Moments* moments_of(const Weight& w) {
    if (w.inputs.empty()) return nullptr;
    compress::Moments* moments = &moments_.at(w.inputs.front());
    if (w.inputs.size() > 1) {
      moments = &sum_.emplace(*moments);
      for (const Vectors& more : std::span(w.inputs).subspan(1)) moments->add(moments_.at(more));
    }
    return moments->are_known() ? moments : nullptr;
  }

  void narrow(const Weight& w) {
    if (is_float(wanted_.type)) return round(*w.value);
    Value& v = *w.value;
    const Tensor& t = *v.constant();
    const Blocks blocks = blocks_of(t, w.axes, wanted_.block);
    const PackedType packed{.type = wanted_.type, .block = wanted_.block};
    const bool is_packed =
        wanted_.runtime != nullptr && &top_ == &context_.model.graph() && can_pack(v, w.axes, packed, *wanted_.runtime);
    if (!is_packed && !wanted_.can_dequantize(t.dtype())) {
      for (const Use& u : v.uses()) context_.log.near_miss(*u.owner, "the target cannot dequantize a weight");
      return;
    }
    if (!is_packed) require_opset(t.dtype());
    const compress::Moments* moments = moments_of(w);
    auto made = are_many_ && moments == nullptr && !is_packed && t.size() >= compress::kLargeSize
                    ? compress::encode_when_read(v.constant(), blocks.grouping, wanted_.type, blocks.scale_shape)
                    : compress::encode(t, blocks.grouping, wanted_.type, blocks.scale_shape,
                                       {.moments = moments, .channel = w.axes.channel});
    if (!made) return leave(v, "not finite");
    changed_ = true;
    // onnxruntime up to 1.23 moves a Transpose before DequantizeLinear, and takes codes without zero points
    // for unsigned ones there.
    const auto is_moved = [](const Use& u) { return u.owner->is("Transpose"); };
    if (wanted_.type == DType::kI8 && std::ranges::any_of(v.uses(), is_moved))
      made->zeros = Tensor::full(DType::kI8, blocks.scale_shape, 0);
    const size_t before = t.byte_size();
    if (is_packed) {
      *made = write_packed(v, w.axes, packed, *made, context_);
    } else {
      replace(v, *made, blocks);
    }
    if (bit_width(made->codes->dtype()) < 8)
      context_.model.ir_version = std::max<int64_t>(context_.model.ir_version, kNarrowIrVersion);
    count(before, {made->codes, made->scales, made->zeros});
    if (moments != nullptr) context_.log.count("weights calibrated");
  }

  // Stores a weight of f32 in half the bytes.
  void round(Value& v) {
    if (v.dtype() != DType::kF32) return;
    require_opset(v.dtype());
    const TensorPtr made = compress::rounded(v.constant(), wanted_.type);
    if (made == nullptr) return leave(v, fmt::format("beyond {}", to_string(wanted_.type)));
    changed_ = true;
    count(v.constant()->byte_size(), {made});
    Graph& home = home_of(v);
    Rewriter b(home, context_);
    b.set_insertion_point(home.first());
    const std::string name(v.name().view());
    Value* stored = b.constant(made, name.empty() ? std::string() : fmt::format("{}_{}", name, to_string(wanted_.type)));
    compress::replace_constant(v, *b.Cast(stored, {.to = DType::kF32}));
  }

  void leave(const Value& v, std::string_view why) {
    for (const Use& u : v.uses()) context_.log.near_miss(*u.owner, fmt::format("elements of a weight are {}", why));
    context_.log.count(why);
  }

  void count(size_t bytes_before, std::initializer_list<TensorPtr> parts) {
    context_.log.count("weights");
    context_.log.count("bytes before", bytes_before);
    for (const TensorPtr& part : parts) context_.log.count("bytes after", part != nullptr ? part->byte_size() : 0);
  }

  void require_opset(DType weights) const {
    const auto has = context_.model.opset_version("");
    const int needed = wanted_.opset_for(weights);
    if (has && *has >= needed) return;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("weights of {} stored as {} need opset {}, and the model imports {}", to_string(weights),
                            to_string(wanted_.type), needed, has.value_or(0)),
                {fmt::format("help: --opset {} converts the model first", needed)});
  }

  void replace(Value& v, const compress::Codes& made, const Blocks& blocks) {
    Graph& home = home_of(v);
    Rewriter b(home, context_);
    b.set_insertion_point(home.first());
    const std::string name(v.name().view());
    const auto constant = [&](const TensorPtr& t, std::string_view suffix) -> Value* {
      if (t == nullptr) return nullptr;
      return b.constant(t, name.empty() ? std::string() : fmt::format("{}{}", name, suffix));
    };
    Value* codes = constant(made.codes, kCodesSuffix);
    Value* scales = constant(made.scales, kScaleSuffix);
    Value* zeros = constant(made.zeros, kZerosSuffix);
    Value* floats = b.DequantizeLinear(codes, scales, zeros, {.axis = blocks.axis, .block_size = blocks.size});
    if (v.dtype() != floats->dtype()) floats = b.Cast(floats, {.to = v.dtype()});
    compress::replace_constant(v, *floats);
  }

  Graph& top_;
  PassContext& context_;
  const Wanted wanted_;
  const compress::Filter filter_;
  std::map<Vectors, compress::Moments> moments_;
  std::optional<compress::Moments> sum_;  // of those of a weight with several inputs
  bool are_many_ = false;                 // too many to hold their codes
  bool changed_ = false;
};

}  // namespace

int opset_of_narrow_weights(Model& m, const PassOptions& options, bool in_half) {
  const Wanted wanted = wanted_by(options);
  int needed = 0;
  for (const auto& f : m.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      const auto add = [&](const Value& v) {
        if (compress::is_large(v, wanted.min_elements) && wanted.can_dequantize(v.dtype()))
          needed = std::max(needed, wanted.opset_for(in_half ? DType::kF16 : v.dtype()));
      };
      for (const Value* v : g->constants()) add(*v);
      for (const Node& n : g->nodes()) {
        if (n.is("Constant")) add(*n.result());
      }
    }
  }
  return needed;
}

Pass quantize_weights() {
  return Pass::on_graph(Numerics::kRelaxed, needs({"MatMul", "Gemm", "Conv", "ConvTranspose", "Gather", "LSTM", "GRU", "RNN"}),
                        [](Graph& top, PassContext& context) { return WeightQuantizer(top, context).run(); })
      .option("type", "what stores weights: int8 (default), uint8, int4, uint4, f16, bf16")
      .option("block_size", "how many weights share a scale; 0: all of a channel (default: 32 for 4 bits, 0 for 8)")
      .option("only", "names of weights, one per line; the others stay")
      .option("target",
              "the onnxruntime (ort-1.23) whose own operators may read weights of 4 bits, in place of DequantizeLinear")
      .option("min_elements", "weights with fewer elements stay (default: 1024)")
      .after_verification();
}

}  // namespace sardonyx::onnx
