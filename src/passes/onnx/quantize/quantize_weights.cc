//   x ── MatMul(W) ── y   =>   x ── MatMul(DequantizeLinear(codes, scales)) ── y
//
// Stores constant weights as integers of 8 or 4 bits, from which DequantizeLinear makes the floats that
// products read. Weights are those of MatMul (either side), Gemm (B), Conv and ConvTranspose, the tables of
// Gather, and W and R of LSTM, GRU and RNN. Integers of 8 bits have a scale for each column, channel or row
// of a table; those of 4 bits for each block of 32 along the axis that is summed over, or for each channel
// where that axis is shorter; least_squares.h chooses them. A weight with several users is stored once, also
// where a Transpose or Cast stands before some. What a Loop or Scan repeats is dequantized before it.
//
// What stops it: few elements; a user other than these operands; fewer than two axes; elements that are
// infinite or NaN. Relaxed: results change by what fewer bits lose.
#include "passes/onnx/quantize/quantize_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <tuple>
#include <unordered_set>

#include "ir/tensor/half.h"
#include "passes/onnx/quantize/least_squares.h"
#include "passes/option_lists.h"
#include "rewrite/onnx_rewriter.h"
#include "support/system/interrupt.h"

namespace sardonyx::onnx {
namespace {

constexpr int kBlockwiseOpset = 21;  // which added 4 bits as well
constexpr int kHalfOpset = 19;       // whose DequantizeLinear makes f16 and bf16
constexpr int kChannelOpset = 13;
constexpr int kNarrowIrVersion = 10;  // the first that knows types of 4 bits

struct Wanted {
  DType type = DType::kI8;
  int64_t block = 0;  // 0: a scale for each channel
  int64_t min_elements = 1024;

  CodeRange range() const { return {.bits = bit_width(type), .is_signed = sardonyx::is_signed(type)}; }
  int opset_for(DType weights) const {
    if (bit_width(type) < 8 || block > 0) return kBlockwiseOpset;
    return weights == DType::kF32 ? kChannelOpset : kHalfOpset;
  }
};

Wanted wanted_by(const PassOptions& options) {
  Wanted wanted;
  const std::string type = options.text("type", "int8");
  const auto is = [&](std::string_view name, DType t) {
    if (type == name) wanted.type = t;
    return type == name;
  };
  if (!is("int8", DType::kI8) && !is("uint8", DType::kU8) && !is("int4", DType::kI4) && !is("uint4", DType::kU4))
    throw Error(ErrorCode::kInvalidArgument, fmt::format("weights cannot be stored as '{}'", type),
                {"expected int8, uint8, int4 or uint4"});
  wanted.block = options.number("block_size", bit_width(wanted.type) < 8 ? 32 : 0);
  wanted.min_elements = options.number("min_elements", wanted.min_elements);
  if (wanted.block < 0 || wanted.min_elements < 0)
    throw Error(ErrorCode::kInvalidArgument, "block_size and min_elements of quantize_weights are not negative");
  return wanted;
}

bool is_weight_type(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

// Whether v could be a weight by its payload.
bool is_large(const Value& v, const Wanted& wanted) {
  if (!v.is_constant() || !is_weight_type(v.dtype())) return false;
  const Tensor& t = *v.constant();
  return !t.is_promise() && t.rank() >= 2 && t.size() > 0 && t.size() >= wanted.min_elements;
}

// --- the axes of a weight

struct Axes {
  bool is_table = false;  // products decide first where a table is shared with them
  size_t summed = 0;      // the axis for blocks
  size_t channel = 0;     // the axis for one scale each

  auto order() const { return std::tuple(is_table, summed, channel); }
};

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

// The axes by which the users of v read it, behind at most `views` views; nullopt if one of them reads it as
// something else.
std::optional<Axes> axes_of(const Value& v, size_t rank, int views = 2) {
  std::optional<Axes> found;
  for (const Use& u : v.uses()) {
    const Node& n = *u.owner;
    if (n.is_boundary()) return std::nullopt;
    std::optional<Axes> axes;
    if (views > 0 && is_view(n)) {
      axes = axes_of(*n.result(), rank, views - 1);
      if (axes) axes = axes_before(n, *axes, rank);
    } else {
      axes = axes_of(n, static_cast<size_t>(&u - n.operands().data()), rank);
    }
    if (!axes) return std::nullopt;
    if (!found || axes->order() < found->order()) found = axes;
  }
  return found;
}

// --- codes

// The elements of a tensor of f32, f16 or bf16.
class Floats {
 public:
  Floats(const Tensor& t) : bytes_(t.bytes(scratch_)) {
    if (t.dtype() == DType::kF32) return;
    singles_.resize(static_cast<size_t>(t.size()));
    if (t.dtype() == DType::kF16) {
      halves_to_floats(bytes_.data(), reinterpret_cast<std::byte*>(singles_.data()), singles_.size());
    } else {
      for (int64_t i = 0; i < t.size(); ++i)
        singles_[static_cast<size_t>(i)] = static_cast<float>(decode_element(t.dtype(), bytes_.data(), i));
    }
    bytes_ = std::as_bytes(std::span(singles_));
  }

  float operator[](int64_t i) const {
    float v = 0;
    std::memcpy(&v, bytes_.data() + static_cast<size_t>(i) * sizeof v, sizeof v);
    return v;
  }

 private:
  std::vector<std::byte> scratch_;
  std::vector<float> singles_;
  std::span<const std::byte> bytes_;  // may be unaligned
};

// The elements that share a scale: runs of `count` elements, each `stride` after the one before it.
struct Group {
  int64_t first = 0, count = 0, stride = 1, runs = 1, run_stride = 0;

  size_t size() const { return static_cast<size_t>(count * runs); }
};

// How a tensor is split into groups, in the order of its scales.
class Grouping {
 public:
  Grouping(const Tensor& t, const Axes& axes, int64_t block) {
    const auto shape = t.shape();
    const bool in_blocks = block > 0 && shape[axes.summed] >= block;
    axis_ = in_blocks ? axes.summed : axes.channel;
    block_ = in_blocks ? block : 0;
    size_ = shape[axis_];
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i != axis_) (i < axis_ ? outer_ : inner_) *= shape[i];
    }
    scale_shape_ = in_blocks ? std::vector<int64_t>(shape.begin(), shape.end()) : std::vector<int64_t>{size_};
    if (in_blocks) scale_shape_[axis_] = blocks();
  }

  int64_t axis() const { return static_cast<int64_t>(axis_); }
  int64_t block() const { return block_; }  // 0: one group for each index of the axis
  const std::vector<int64_t>& scale_shape() const { return scale_shape_; }
  int64_t num_groups() const { return block_ == 0 ? size_ : outer_ * blocks() * inner_; }

  Group group(int64_t i) const {
    if (block_ == 0) return {i * inner_, inner_, 1, outer_, size_ * inner_};
    const int64_t from = i / inner_ % blocks() * block_, row = i / inner_ / blocks();
    return {(row * size_ + from) * inner_ + i % inner_, std::min(block_, size_ - from), inner_};
  }

 private:
  int64_t blocks() const { return (size_ - 1) / block_ + 1; }

  size_t axis_ = 0;
  int64_t block_ = 0, size_ = 0, outer_ = 1, inner_ = 1;
  std::vector<int64_t> scale_shape_;
};

struct Codes {
  TensorPtr codes, scales, zeros;  // zeros: null for signed codes
};

// `values` of one byte each as a tensor: two in a byte, the first one in its low bits, for types of 4 bits.
TensorPtr packed(DType type, std::vector<int64_t> shape, std::vector<std::byte> values) {
  if (bit_width(type) == 8) return Tensor::own(type, std::move(shape), std::move(values));
  constexpr std::byte kLow{15};
  const size_t bytes = (values.size() + 1) / 2;
  for (size_t i = 0; i < bytes; ++i) {
    const std::byte second = 2 * i + 1 < values.size() ? values[2 * i + 1] : std::byte{0};
    values[i] = (values[2 * i] & kLow) | (second << 4);
  }
  values.resize(bytes);
  return Tensor::own(type, std::move(shape), std::move(values));
}

// Computes the codes of a tensor, some groups at a time, on several threads.
class Encoder {
 public:
  Encoder(const Tensor& t, const Grouping& grouping, const Wanted& wanted)
      : t_(t),
        grouping_(grouping),
        wanted_(wanted),
        floats_(t),
        codes_(static_cast<size_t>(t.size())),
        zeros_(static_cast<size_t>(grouping.num_groups())),
        scales_(byte_size(t.dtype(), static_cast<uint64_t>(grouping.num_groups()))) {}

  // Nullopt if an element is infinite or NaN.
  std::optional<Codes> run() {
    constexpr int64_t kFew = 1 << 16;  // elements, for which threads do not pay
    const size_t workers = t_.size() > kFew ? std::clamp(std::thread::hardware_concurrency(), 1u, 8u) : 1;
    std::vector<std::exception_ptr> failed(workers);
    std::vector<std::thread> others;
    for (size_t i = 1; i < workers; ++i) others.emplace_back([&failed, this, i] { failed[i] = work(); });
    failed[0] = work();
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& e : failed) {
      if (e != nullptr) std::rethrow_exception(e);
    }
    if (!is_finite_) return std::nullopt;
    return Codes{packed(wanted_.type, {t_.shape().begin(), t_.shape().end()}, std::move(codes_)),
                 Tensor::own(t_.dtype(), grouping_.scale_shape(), std::move(scales_)),
                 wanted_.range().is_signed ? nullptr : packed(wanted_.type, grouping_.scale_shape(), std::move(zeros_))};
  }

 private:
  static constexpr size_t kLanes = LeastSquares::kLanes;

  // Neighbors, side by side.
  struct Tile {
    std::vector<Group> groups;
    std::vector<float> numbers;
    std::vector<uint8_t> codes;
  };

  std::exception_ptr work() {
    try {
      LeastSquares least_squares(wanted_.range(), t_.dtype());
      Tile tile;
      constexpr auto kNext = static_cast<int64_t>(kLanes);
      for (int64_t first = 0; is_finite_ && (first = next_.fetch_add(kNext)) < grouping_.num_groups();) {
        check_interrupt();
        encode(tile, first, least_squares);
      }
    } catch (...) {
      is_finite_ = false;  // stops the others
      return std::current_exception();
    }
    return nullptr;
  }

  void encode(Tile& tile, int64_t first, LeastSquares& least_squares) {
    LeastSquares::Lanes<size_t> sizes{};
    tile.groups.clear();
    for (size_t l = 0; l < kLanes && first + static_cast<int64_t>(l) < grouping_.num_groups(); ++l) {
      tile.groups.push_back(grouping_.group(first + static_cast<int64_t>(l)));
      sizes[l] = tile.groups[l].size();
    }
    tile.numbers.assign(std::ranges::max(sizes) * kLanes, 0.0f);
    tile.codes.resize(tile.numbers.size());
    for_elements(tile, [&](size_t at, int64_t of) { tile.numbers[at] = floats_[of]; });
    if (!std::ranges::all_of(tile.numbers, [](float x) { return std::isfinite(x); })) {
      is_finite_ = false;
      return;
    }
    const auto chosen = least_squares.fit(tile.numbers, sizes, tile.codes);
    for (size_t l = 0; l < tile.groups.size(); ++l) {
      const int64_t group = first + static_cast<int64_t>(l);
      encode_element(t_.dtype(), scales_.data(), group, chosen[l].scale);
      zeros_[static_cast<size_t>(group)] = static_cast<std::byte>(chosen[l].zero);
    }
    for_elements(tile,
                 [&](size_t at, int64_t of) { codes_[static_cast<size_t>(of)] = static_cast<std::byte>(tile.codes[at]); });
  }

  // Calls visit(element in the tile, element in the tensor). Groups that are columns are read together.
  template <class F>
  static void for_elements(const Tile& tile, const F& visit) {
    const Group &front = tile.groups.front(), &back = tile.groups.back();
    const size_t size = tile.groups.size();
    const bool in_columns = (front.count == 1 || front.stride > 1) && front.count == back.count &&
                            back.first - front.first == static_cast<int64_t>(size) - 1;
    const size_t together = in_columns ? size : 1;
    for (size_t j = 0; j < size; j += together) {
      const Group& g = tile.groups[j];
      size_t k = 0;
      for (int64_t run = 0; run < g.runs; ++run) {
        for (int64_t i = 0; i < g.count; ++i, ++k) {
          const int64_t at = g.first + run * g.run_stride + i * g.stride;
          for (size_t l = 0; l < together; ++l) visit(k * kLanes + j + l, at + static_cast<int64_t>(l));
        }
      }
    }
  }

  const Tensor& t_;
  const Grouping& grouping_;
  const Wanted& wanted_;
  const Floats floats_;
  std::vector<std::byte> codes_, zeros_, scales_;
  std::atomic<int64_t> next_ = 0;  // the first group that nobody has taken
  std::atomic<bool> is_finite_ = true;
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
        only_(split_names(context.options().text("only", ""), '\n')) {}

  bool run() {
    bool changed = false;
    for (Value* v : weights()) changed |= narrow(*v);
    return changed;
  }

 private:
  // In the order of their first users.
  std::vector<Value*> weights() const {
    std::vector<Value*> found;
    std::unordered_set<const Value*> seen;
    for (Graph* g : graphs_in(top_)) {
      for (const Node& n : g->nodes()) {
        for (const Use& u : n.operands()) {
          if (u.value == nullptr || !is_large(*u.value, wanted_)) continue;
          if (!only_.empty() && !only_.contains(u.value->name().view())) continue;
          if (seen.insert(u.value).second) found.push_back(u.value);
        }
      }
    }
    return found;
  }

  bool narrow(Value& v) {
    const auto axes = axes_of(v, v.constant()->rank());
    if (!axes) return false;
    const Tensor& t = *v.constant();
    const Grouping grouping(t, *axes, wanted_.block);
    require_opset(t.dtype());
    const auto made = Encoder(t, grouping, wanted_).run();
    if (!made) {
      for (const Use& u : v.uses()) context_.log.near_miss(*u.owner, "a weight is infinite or NaN");
      context_.log.count("not finite");
      return false;
    }
    const size_t before = t.byte_size();
    replace(v, *made, grouping);
    context_.log.count("weights");
    context_.log.count("bytes before", before);
    for (const TensorPtr& part : {made->codes, made->scales, made->zeros})
      context_.log.count("bytes after", part != nullptr ? part->byte_size() : 0);
    return true;
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

  void replace(Value& v, const Codes& made, const Grouping& grouping) {
    Graph& home = home_of(v);
    Rewriter b(home, context_);
    b.set_insertion_point(home.first());
    const std::string name(v.name().view());
    const auto constant = [&](const TensorPtr& t, std::string_view suffix) -> Value* {
      if (t == nullptr) return nullptr;
      return b.constant(t, name.empty() ? std::string() : fmt::format("{}_{}", name, suffix));
    };
    Value* codes = constant(made.codes, "quantized");
    Value* scales = constant(made.scales, "scale");
    Value* zeros = constant(made.zeros, "zero_point");
    Value* floats = b.DequantizeLinear(codes, scales, zeros, {.axis = grouping.axis(), .block_size = grouping.block()});
    home.replace_uses(v, *floats);
    if (v.def() != nullptr) {
      v.graph()->erase(*v.def());
    } else {
      v.graph()->erase_constant(v);
    }
    Model& m = context_.model;
    if (bit_width(wanted_.type) < 8) m.ir_version = std::max<int64_t>(m.ir_version, kNarrowIrVersion);
  }

  Graph& top_;
  PassContext& context_;
  const Wanted wanted_;
  const NameSet only_;  // empty: all
};

}  // namespace

int opset_of_narrow_weights(Model& m, const PassOptions& options) {
  const Wanted wanted = wanted_by(options);
  int needed = 0;
  for (const auto& f : m.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      const auto add = [&](const Value& v) {
        if (is_large(v, wanted)) needed = std::max(needed, wanted.opset_for(v.dtype()));
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
      .option("type", "the integers that store weights: int8 (default), uint8, int4, uint4")
      .option("block_size", "how many weights share a scale; 0: all of a channel (default: 32 for 4 bits, 0 for 8)")
      .option("only", "names of weights, one per line; the others stay")
      .option("min_elements", "weights with fewer elements stay (default: 1024)");
}

}  // namespace sardonyx::onnx
