//   conv(x, weight=W)   =>   conv(x, weight=constexpr_...(fewer bits))
//
// Stores constant weights in fewer bits, which Core ML expands when it loads or runs the program. Weights are
// those of conv, conv_transpose, linear, matmul (either side), lstm, gru and rnn, and the tables of gather.
// The option `type` names the form:
//
//   int8, uint8     constexpr_affine_dequantize before iOS 18, constexpr_blockwise_shift_scale from iOS 18 on: a
//                   scale for each output channel, or row of a table
//   int4, uint4     constexpr_blockwise_shift_scale (iOS 18): a scale for each block of about 32 along the axis
//                   that is summed over, in each output channel. compress/least_squares.h chooses scales
//   palette1 to 8   constexpr_lut_to_dense: indices of 1, 2, 3 (iOS 18), 4, 6 or 8 bits into one table for the
//                   tensor, or (iOS 18) for each `group_size` channels. compress/palette.h makes the tables
//   sparse          constexpr_sparse_to_dense: half of the elements, or the share `sparsity`, become zeros
//   sparse-int8     (iOS 18) what sparse keeps, as int8: constexpr_sparse_blockwise_shift_scale before it
//   sparse-palette4 (iOS 18) what sparse keeps, in a palette of 16 for the tensor: constexpr_lut_to_sparse
//
// If all weights are more than 1 GiB, integers are computed while they are written, so that one weight at a
// time is in memory.
//
// A weight with several users is stored once. What stops it: few elements; a user other than these operands;
// fewer than two axes; elements that are infinite or NaN. Relaxed: results change by what fewer bits lose.
#include "passes/mil/quantize/compress_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <tuple>

#include "passes/compress/bits.h"
#include "passes/compress/encode.h"
#include "passes/compress/palette.h"
#include "passes/compress/sparse.h"
#include "passes/compress/weights.h"
#include "passes/mil/named.h"
#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

using compress::Axes;

constexpr int kIos16 = 7, kIos18 = 9;  // whose specifications have compressed weights, and blocks and groups

enum class Form : uint8_t { kIntegers, kPalette, kSparse, kSparseIntegers, kSparsePalette };

bool is_sparse(Form f) { return f >= Form::kSparse; }

struct WeightType {
  std::string_view name;
  Form form;
  DType codes;  // of palettes: the indices
  int since = kIos16;
};
constexpr std::array kTypes = {
    WeightType{"int8", Form::kIntegers, DType::kI8},
    WeightType{"uint8", Form::kIntegers, DType::kU8},
    WeightType{"int4", Form::kIntegers, DType::kI4, kIos18},
    WeightType{"uint4", Form::kIntegers, DType::kU4, kIos18},
    WeightType{"palette1", Form::kPalette, DType::kU1},
    WeightType{"palette2", Form::kPalette, DType::kU2},
    WeightType{"palette3", Form::kPalette, DType::kU3, kIos18},
    WeightType{"palette4", Form::kPalette, DType::kU4},
    WeightType{"palette6", Form::kPalette, DType::kU6},
    WeightType{"palette8", Form::kPalette, DType::kU8},
    WeightType{"sparse", Form::kSparse, DType::kU1},
    WeightType{"sparse-int8", Form::kSparseIntegers, DType::kI8, kIos18},
    WeightType{"sparse-palette4", Form::kSparsePalette, DType::kU4, kIos18},
};

struct Wanted {
  WeightType type = kTypes[0];
  int64_t block = 0;       // integers: 0 is a scale for each channel
  int64_t group_size = 0;  // palettes: 0 is one table for the tensor
  double sparsity = 0.5;
  int64_t min_elements = 2048;
};

[[noreturn]] void refuse(std::string why, std::string help) {
  throw Error(ErrorCode::kInvalidArgument, std::move(why), {std::move(help)});
}

// Refuses an option of another form.
void check_fits(const PassOptions& options, std::string_view name, const Wanted& wanted, bool fits, std::string_view forms) {
  if (!fits && !options.text(name, "").empty())
    refuse(fmt::format("{} is an option of {}, and weights are stored as {}", name, forms, wanted.type.name),
           "help: leave it out");
}

double sparsity_of(const std::string& text) {
  double share = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size() || !(share >= 0 && share < 1))
    refuse(fmt::format("a share '{}' of the weights cannot be zeros", text), "expected a sparsity from 0 to below 1, as 0.75");
  return share;
}

Wanted wanted_by(const PassOptions& options) {
  Wanted wanted;
  const std::string name = options.text("type", "int8");
  const auto* type = std::ranges::find(kTypes, name, &WeightType::name);
  if (type == kTypes.end())
    refuse(fmt::format("weights cannot be stored as '{}'", name),
           "expected int8, uint8, int4, uint4, palette1, 2, 3, 4, 6 or 8, sparse, sparse-int8 or sparse-palette4");
  wanted.type = *type;
  check_fits(options, "block_size", wanted, type->form == Form::kIntegers, "int8, uint8, int4 and uint4");
  check_fits(options, "group_size", wanted, type->form == Form::kPalette, "palettes");
  check_fits(options, "sparsity", wanted, is_sparse(type->form), "sparse weights");
  wanted.block = options.number("block_size", bit_width(type->codes) < 8 ? 32 : 0);
  wanted.group_size = options.number("group_size", 0);
  wanted.sparsity = sparsity_of(options.text("sparsity", "0.5"));
  wanted.min_elements = options.number("min_elements", wanted.min_elements);
  if (wanted.block < 0 || wanted.group_size < 0 || wanted.min_elements < 0)
    refuse("block_size, group_size and min_elements of compress_weights are not negative", "expected 0 or more");
  return wanted;
}

void check_target(int version, const Wanted& wanted) {
  const auto require = [version](int needed, std::string_view what, std::string help) {
    if (version < needed)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{} need {}, and the program is for {}", what, system_of(needed), system_of(version)),
                  {std::move(help)});
  };
  require(kIos16, "compressed weights", "help: convert the model with --target iOS16 or a later one");
  const std::string_view instead = is_sparse(wanted.type.form)          ? "sparse"
                                   : wanted.type.form == Form::kPalette ? "palette4"
                                                                        : "int8 or palette4";
  require(wanted.type.since, fmt::format("weights stored as {}", wanted.type.name),
          fmt::format("help: {} works here; or convert the model with --target iOS18", instead));
  if (wanted.group_size > 0)
    require(kIos18, "tables for groups of channels", "help: leave group_size out, or convert with --target iOS18");
  if (wanted.type.form == Form::kIntegers && wanted.block > 0)
    require(kIos18, "scales for blocks", "help: leave block_size out, or convert with --target iOS18");
}

// How the node reads a weight in that slot; nullopt if that is not one.
std::optional<Axes> axes_of(Node& n, std::string_view slot, size_t rank, ValueFacts& facts) {
  if (n.unchecked()) return std::nullopt;
  if (n.is("matmul") && (slot == "x" || slot == "y")) {
    const bool is_left = slot == "x", transposed = OpReader(n, facts).flag_in(is_left ? "transpose_x" : "transpose_y");
    return is_left == transposed ? Axes{false, rank - 2, rank - 1} : Axes{false, rank - 1, rank - 2};
  }
  if (n.is("gather") && slot == "x") {
    const auto axis = OpReader(n, facts).axis_in("axis", rank);
    if (!axis) return std::nullopt;
    return Axes{true, *axis == rank - 1 ? rank - 2 : rank - 1, *axis};
  }
  if (n.is("conv_transpose") && slot == "weight") return Axes{false, 0, 1};
  const bool is_layer = (n.is("conv") || n.is("linear")) && slot == "weight";
  const bool is_recurrent = (n.is("lstm") || n.is("gru") || n.is("rnn")) && slot.starts_with("weight_");
  return is_layer || is_recurrent ? std::optional(Axes{false, 1, 0}) : std::nullopt;
}

// The axes by which the users of v read it; nullopt if one of them reads it as something else.
std::optional<Axes> axes_of(const Value& v, ValueFacts& facts) {
  std::optional<Axes> found;
  for (const Use& u : v.uses()) {
    Node& n = *u.owner;
    if (n.is_boundary()) return std::nullopt;
    const Slot* slot = slot_of(n.op(), static_cast<size_t>(&u - n.operands().data()), n.num_inputs());
    const auto axes = slot == nullptr ? std::nullopt : axes_of(n, slot->name, v.constant()->rank(), facts);
    if (!axes) return std::nullopt;
    if (!found || axes->order() < found->order()) found = axes;
  }
  return found;
}

// The largest divisor of an axis that is at most `most` and at least a quarter of that; the axis itself if
// there is none.
int64_t even_part(int64_t axis, int64_t most) {
  for (int64_t part = std::min(axis, most); part * 4 >= most; --part) {
    if (axis % part == 0) return part;
  }
  return axis;
}

class Compressor {
 public:
  Compressor(const Wanted& wanted, PassContext& context) : context_(context), wanted_(wanted) {}

  bool run(Graph& top) {
    check_target(Rewriter(top, context_).version(), wanted_);
    const compress::Filter filter{wanted_.min_elements, split_names(context_.options().text("only", ""), '\n')};
    bool changed = false;
    const std::vector<Value*> weights = compress::large_constants(top, filter);
    size_t bytes = 0;
    for (const Value* v : weights) bytes += v->constant()->byte_size();
    are_many_ = bytes > compress::kManyBytes;
    for (Value* v : weights | std::views::reverse) changed |= compress(*v);  // each comes before those that are there
    return changed;
  }

  bool compress(Value& v) {
    const auto axes = axes_of(v, context_.facts);
    if (!axes) return false;
    Graph& home = *v.graph();
    Rewriter b(home, context_);
    b.set_insertion_point(home.first());
    const Tensor& t = *v.constant();
    Value* made = nullptr;
    switch (wanted_.type.form) {
      case Form::kIntegers: made = integers(b, v.constant(), *axes); break;
      case Form::kPalette: made = palette(b, t, *axes); break;
      case Form::kSparse: made = zeros(b, t); break;
      case Form::kSparseIntegers: made = zeros_and_integers(b, t, *axes); break;
      case Form::kSparsePalette: made = zeros_and_palette(b, t); break;
    }
    if (made == nullptr) {
      for (const Use& u : v.uses()) context_.log.near_miss(*u.owner, "a weight is infinite or NaN");
      context_.log.count("not finite");
      return false;
    }
    context_.log.count("weights");
    context_.log.count("bytes before", t.byte_size());
    const Node& last = *made->def();
    for (const Node* n = home.first(); n != last.next(); n = n->next()) count_bytes(*n);
    const std::string_view suffix = is_sparse(wanted_.type.form)          ? "sparsified"
                                    : wanted_.type.form == Form::kPalette ? "palettized"
                                                                          : "quantized";
    if (const std::string_view name = v.name().view(); !name.empty()) named(b, made, fmt::format("{}_{}", name, suffix));
    compress::replace_constant(v, *made);
    return true;
  }

 private:
  void count_bytes(const Node& made) {
    for (const Use& u : made.operands()) {
      if (u.value != nullptr && u.value->is_constant()) context_.log.count("bytes after", u.value->constant()->byte_size());
    }
  }

  // These return null if an element is infinite or NaN. New ops are the first of the graph.

  Value* integers(Rewriter& b, const TensorPtr& weight, const Axes& axes) {
    const Tensor& t = *weight;
    std::vector<int64_t> extents(t.shape().begin(), t.shape().end());
    extents[axes.channel] = 1;
    if (wanted_.block > 0) {
      extents[axes.summed] = even_part(extents[axes.summed], wanted_.block);
      for (size_t batch = 0; batch < std::min(axes.summed, axes.channel); ++batch) extents[batch] = 1;
    }
    const compress::Grouping grouping(t.shape(), std::move(extents));
    const bool is_vector = b.version() < kIos18;
    const int64_t channels = t.shape()[axes.channel];
    std::vector<int64_t> scales = grouping.counts();
    if (is_vector) scales = channels == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{channels};  // must be a scalar
    const auto made = are_many_ && t.size() >= compress::kLargeSize
                          ? compress::encode_when_read(weight, grouping, wanted_.type.codes, scales)
                          : compress::encode(t, grouping, wanted_.type.codes, scales);
    if (!made) return nullptr;
    if (!is_vector)
      return b.constexpr_blockwise_shift_scale({.data = made->codes, .offset = made->zeros, .scale = made->scales});
    Value* zeros = made->zeros != nullptr ? b.constant(made->zeros) : zero_points(b, scales);
    return b.constexpr_affine_dequantize({.axis = static_cast<int64_t>(axes.channel),
                                          .quantized_data = made->codes,
                                          .scale = made->scales,
                                          .zero_point = zeros});
  }

  // Zero points of signed codes: one constant for all weights of a graph with as many channels.
  Value* zero_points(Rewriter& b, const std::vector<int64_t>& shape) {
    Value*& found = zero_points_[{&b.graph(), shape}];
    if (found == nullptr) found = b.constant(Tensor::full(wanted_.type.codes, shape, 0));
    return found;
  }

  Value* palette(Rewriter& b, const Tensor& t, const Axes& axes) {
    std::vector<int64_t> extents(t.shape().begin(), t.shape().end());
    if (wanted_.group_size > 0) extents[axes.channel] = even_part(extents[axes.channel], wanted_.group_size);
    const compress::Grouping grouping(t.shape(), std::move(extents));
    const int bits = bit_width(wanted_.type.codes);
    const int64_t entries = int64_t{1} << bits;
    auto made = compress::palettes(t, grouping, static_cast<size_t>(entries));
    if (!made) return nullptr;
    if (b.version() < kIos18)
      return listed(b, "constexpr_lut_to_dense", bytes_of(std::move(made->indices), bits), made->tables->reshaped({entries}),
                    t);
    std::vector<int64_t> table = grouping.counts();
    table.insert(table.end(), {entries, 1});
    return b.constexpr_lut_to_dense({.indices = compress::packed(wanted_.type.codes, shape_of(t), std::move(made->indices)),
                                     .lut = made->tables->reshaped(table)});
  }

  Value* zeros(Rewriter& b, const Tensor& t) {
    auto made = compress::sparse(t, wanted_.sparsity);
    if (!made) return nullptr;
    if (b.version() < kIos18) return listed(b, "constexpr_sparse_to_dense", made->kept, bytes_of(std::move(made->mask), 1), t);
    return b.constexpr_sparse_to_dense(
        {.mask = compress::packed(DType::kU1, shape_of(t), std::move(made->mask)), .nonzero_data = made->kept});
  }

  // A sparse_to_dense of the two results of an op that expands what is kept.
  static Value* dense(Rewriter& b, Node& kept) {
    return b.constexpr_sparse_to_dense({.mask = kept.result(0), .nonzero_data = kept.result(1)});
  }

  // Scales are those of all elements, with zeros for those that are not kept: a zero has the code 0.
  Value* zeros_and_integers(Rewriter& b, const Tensor& t, const Axes& axes) {
    auto found = compress::sparse(t, wanted_.sparsity);
    if (!found) return nullptr;
    std::vector<int64_t> extents = shape_of(t);
    extents[axes.channel] = 1;
    const compress::Grouping grouping(t.shape(), std::move(extents));
    const auto made = compress::encode(*compress::expanded(*found, t), grouping, wanted_.type.codes, grouping.counts());
    if (!made) return nullptr;
    std::vector<std::byte> scratch, codes;
    const std::span<const std::byte> all = made->codes->bytes(scratch);
    for (size_t i = 0; i < all.size(); ++i) {
      if (found->mask[i] != std::byte{0}) codes.push_back(all[i]);
    }
    const auto size = std::ssize(codes);
    return dense(b, b.constexpr_sparse_blockwise_shift_scale(
                        {.data_mask = compress::packed(DType::kU1, shape_of(t), std::move(found->mask)),
                         .nonzero_data = Tensor::own(wanted_.type.codes, {size}, std::move(codes)),
                         .scale = made->scales}));
  }

  // The table has only what is kept.
  Value* zeros_and_palette(Rewriter& b, const Tensor& t) {
    auto found = compress::sparse(t, wanted_.sparsity);
    if (!found) return nullptr;
    const int64_t kept = found->kept->size(), entries = int64_t{1} << bit_width(wanted_.type.codes);
    const compress::Grouping one(found->kept->shape(), {kept});
    auto made = compress::palettes(*found->kept, one, static_cast<size_t>(entries));
    if (!made) return nullptr;
    std::vector<int64_t> table(t.rank(), 1);
    table.insert(table.end(), {entries, 1});
    return dense(b, b.constexpr_lut_to_sparse(
                        {.indices_mask = compress::packed(DType::kU1, shape_of(t), std::move(found->mask)),
                         .indices_nonzero_data = compress::packed(wanted_.type.codes, {kept}, std::move(made->indices)),
                         .lut = made->tables->reshaped(table)}));
  }

  static std::vector<int64_t> shape_of(const Tensor& t) { return {t.shape().begin(), t.shape().end()}; }

  static TensorPtr bytes_of(std::vector<std::byte> codes, int bits) {
    std::vector<std::byte> bytes = compress::packed(std::move(codes), bits);
    const auto size = std::ssize(bytes);
    return Tensor::own(DType::kU8, {size}, std::move(bytes));
  }

  // The form before iOS 18: lists of bytes and numbers, and the shape of the result.
  static Value* listed(Rewriter& b, std::string_view op, const TensorPtr& first, const TensorPtr& second, const Tensor& t) {
    std::vector<uint32_t> shape;
    for (int64_t size : t.shape()) shape.push_back(static_cast<uint32_t>(size));
    const TensorPtr sizes = Tensor::of<uint32_t>(DType::kU32, {std::ssize(shape)}, shape);
    Value* const operands[] = {b.constant(first), b.constant(second), b.constant(sizes)};
    return b.make(*b.find(op), operands, 1, {}).result();
  }

  PassContext& context_;
  const Wanted wanted_;
  std::map<std::pair<const Graph*, std::vector<int64_t>>, Value*> zero_points_;
  bool are_many_ = false;  // too many to hold their codes
};

}  // namespace

std::string system_of(int version) { return fmt::format("iOS{}", version < 10 ? version + 9 : version + 16); }

void check_compression(int version, const PassOptions& options) { check_target(version, wanted_by(options)); }

bool can_compress(const Value& v, ValueFacts& facts) {
  return compress::is_large(v, /*min_elements=*/1) && axes_of(v, facts) &&
         compress::are_below(*v.constant(), std::numeric_limits<float>::infinity());
}

void compress_to_int8(std::span<Value* const> weights, PassContext& context) {
  Compressor compressor({}, context);
  for (Value* v : weights) compressor.compress(*v);
}

Pass compress_weights() {
  return Pass::on_graph(
             Numerics::kRelaxed, needs({"conv", "conv_transpose", "linear", "matmul", "lstm", "gru", "rnn", "gather"}),
             [](Graph& top, PassContext& context) { return Compressor(wanted_by(context.options()), context).run(top); })
      .option("type",
              "how weights are stored: int8 (default), uint8, int4, uint4, palette1, 2, 3, 4, 6 or 8, sparse, sparse-int8 or "
              "sparse-palette4")
      .option("block_size", "integers: how many weights share a scale; 0: all of a channel (default: 32 for 4 bits, 0 for 8)")
      .option("group_size", "palettes: how many channels share a table; 0: all (default)")
      .option("sparsity", "sparse: the share of the weights that become zeros (default: 0.5)")
      .option("only", "names of weights, one per line; the others stay")
      .option("min_elements", "weights with fewer elements stay (default: 2048)")
      .after_verification();
}

}  // namespace sardonyx::mil
