// Families of operators: how their nodes follow when operands or results are stored in another layout.
//
// A new operator needs a row in family.cc, and a new family if none fits. Its rows in operators_test.cc list
// the permutations that it follows; the test checks them against the evaluator.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/mincut/layout.h"
#include "rewrite/pass.h"
#include "sardonyx/onnx_builder.h"

namespace sardonyx::layout {

using Ints = std::vector<int64_t>;

// How a node computes the same from operands in other layouts. A layout that is not as_is() differs from how
// it is now.
struct Move {
  std::vector<Layout> operands, results;
  Layout main;        // the layout that the parameters are written for: of operand 0, or of the result
  double slower = 0;  // what the node itself costs more than now, in elements of its first operand
  int more_nodes = 0;
  bool swaps_operands = false;  // operands 0 and 1 change places in the new node
};

// One operand or one result of a node has a new layout.
struct Change {
  const Node& n;
  PassContext& context;
  const Layout& given;
  bool forward;  // the layout is that of operand `slot`; else of a result
  size_t slot;
};

// The new node: what the old one has, until a family writes other parameters.
struct Spelling {
  OnnxBuilder& b;
  PassContext& context;
  std::vector<Value*> operands;
  std::vector<std::pair<std::string, Attr>> attrs;  // besides those that stay
  std::string_view op;                              // empty: the operator stays
  bool drop_attrs = false;
};

struct Family {
  // How the node follows, and at what cost; false if it cannot. The operands and results of *m are as_is()
  // before.
  bool (*follow)(const Change& c, Move& m);
  // Writes the parameters for the new layouts. Null: there are none.
  void (*spell)(const Node& n, const Move& m, Spelling& s) = nullptr;
  // Brings result 0 of the new node back to what it was, where its elements depend on the layout.
  Value* (*restore)(const Node& n, const Move& m, Node& made, OnnxBuilder& b) = nullptr;
  // Whether it follows operands behind the first, and results behind the first.
  bool any_operand = false, any_result = false;
};

// Null for operators that mean their axes by position (Conv, pools, normalizations of channels), and for what
// is no operator of ONNX.
const Family* family_of(const Node& n);

// --- the families
// elementwise_families.cc: nothing to spell
extern const Family kElementwise, kFirstOperand, kMatMul, kLayerNormalization, kShape, kSize;
// axis_families.cc: an axis, or several
extern const Family kReduce, kArgReduce, kAlongAxis, kCumSum, kTopK, kConcat, kSplit, kGather, kGatherElements, kQuantize;
// list_families.cc: a number per axis
extern const Family kSlice, kPad, kTile, kExpand, kResize;
// reshape_families.cc: axes that come, go, are joined or cut
extern const Family kSqueeze, kUnsqueeze, kReshape;

// --- what families share

// Nothing for values without rank, or with more axes than layouts have.
std::optional<size_t> rank_of(const Value* v);
// Counted from the front. Type inference has seen that it is in range.
std::optional<int64_t> axis_in(std::optional<int64_t> axis, size_t rank);
Ints axes_in(Ints axes, size_t rank);
// Where axes of the value are stored.
Ints positions(const Layout& l, const Ints& axes);
Ints sorted(Ints v);

// Operand 0 and all results get one layout. Returns true.
bool same(Move& m, const Layout& l);
// The same for a node that drops `axes` unless `keepdims`.
bool drop_axes(const Change& c, const Ints& axes, std::optional<int64_t> keepdims, Move& m);
// How an operand is stored that is stretched to a result stored as `l`. A value of one element has no axis
// that could move.
Layout broadcast(const Value& v, const Layout& l);
// The cost of working along another axis than now: runtimes copy there and back if it is not the last.
double along(const Layout& l, int64_t axis, size_t rank);

// The elements of a constant integer operand.
std::optional<Ints> constant_ints(PassContext& context, const Node& n, size_t slot);
// A known number of elements, in one axis.
bool is_list_of(const Value* v, size_t length);
// Whether the node has axes in an attribute that its version of the operator reads.
bool has_axes_attr(const Node& n);
// Axes from an operand, else from the attribute; nullopt when they are neither.
std::optional<Ints> axes_of(PassContext& context, const Node& n, size_t slot, size_t rank);
// Writes axes where the node has them.
void set_axes(const Node& n, size_t slot, Ints axes, Spelling& s);
// Axes in the element type of `like`, which some versions leave open.
Value* list_like(const Value& like, const Ints& v, OnnxBuilder& b);
// Writes where the axis of attribute `axis` is stored.
void spell_axis(const Node& n, const Move& m, Spelling& s);

}  // namespace sardonyx::layout
