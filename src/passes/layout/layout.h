// Layouts: in which order the axes of a value are stored, and how operators take part when that order changes.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx::layout {

// Stored axis i is axis from[i] of the value as the program spells it, or a new axis of size one (kNew). A Transpose with attribute
// `perm` stores its operand in the layout `perm`.
struct Layout {
  static constexpr int8_t kNew = -1;
  static constexpr size_t kMaxRank = 15;
  static constexpr uint8_t kAsIs = 255;

  uint8_t rank = kAsIs;
  std::array<int8_t, kMaxRank> from{};

  // The value as it is, whatever its rank.
  static Layout as_is() { return {}; }
  static Layout identity(size_t rank);
  // Nothing when it is no permutation, or of too many axes.
  static std::optional<Layout> permutation(std::span<const int64_t> perm);

  bool is_as_is() const { return rank == kAsIs; }
  bool is_identity() const;  // true for as_is() too
  bool is_permutation() const;
  size_t position(size_t axis) const;  // where an axis of the value is stored; it must be
  std::vector<int64_t> perm() const;
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

// Stored axis i is axis from[i].
Layout layout_of(std::span<const int64_t> from);
// l without the axes in `gone`, the others renumbered.
Layout without_axes(const Layout& l, std::span<const int64_t> gone);
// The reverse: `added` are axes of the larger value; each is stored where it stands by itself, the others in l's order.
Layout with_axes(const Layout& l, std::vector<int64_t> added);
// First stored as `a`, and then the stored value again as `b`.
Layout then(const Layout& a, const Layout& b);
Layout inverse(const Layout& a);       // of a permutation
bool swaps_last_two(const Layout& l);  // and does nothing else
// The type of a stored value; null for types without rank.
const Type* stored_type(Types& types, const Type* t, const Layout& l);
// Whether storing it so moves no element: only axes of size one change place.
bool moves_nothing(const Type& t, const Layout& l);

// How a node computes the same from operands in other layouts. A layout that is not as_is() differs from how it is now.
struct Move {
  std::vector<Layout> operands, results;
  Layout main;        // what the operator's own rule goes by
  double slower = 0;  // what the node itself costs more than now, in elements of its first operand
  int more_nodes = 0;
  bool swaps_operands = false;  // operands 0 and 1 change places in the new node
};

// Values and operands at the border of bodies that are stored in one layout or in another, all together: what a Loop carries from one
// iteration to the next (what it starts from, what the body gets, what it returns, what comes out), a result of both branches of an If, what a
// Scan cuts into slices or stacks.
struct Border {
  struct Read {
    Node* owner;  // or the boundary of a body
    size_t slot;
  };
  std::vector<Read> reads;
  std::vector<Value*> made;
  bool reads_stacks = false,
       makes_stacks = false;  // all that is read, or made, has one axis more, along which the slices stand
  int8_t axis = 0;            // that axis
};
// The operators of a dialect as far as layouts are concerned.
class Operators {
 public:
  virtual ~Operators() = default;
  // The layout that a transposing node stores its operand 0 in; nullopt for other nodes.
  virtual std::optional<Layout> transposition(const Node& n) const = 0;
  // What the node is when operand `slot` (or result `index`) is stored as `l`, a permutation; nullopt when it cannot follow.
  virtual std::optional<Move> from_operand(const Node& n, size_t slot, const Layout& l) = 0;
  virtual std::optional<Move> from_result(const Node& n, size_t index, const Layout& l) = 0;
  // Whether the node takes that operand with its last two axes swapped for nothing: products run either way.
  virtual bool reads_swapped(const Node& n, size_t slot) const = 0;
  // A node before `n` that computes what m says; operands that are not as_is() are left null for the caller. *results are what stands
  // for the results of n.
  virtual Node& rebuild(Node& n, const Move& m, std::vector<Value*>* results) = 0;
  // v stored as `l`, made in g (v's own graph or a nested one) before `before` (null: at the end).
  virtual Value* store(Value& v, const Layout& l, Graph& g, Node* before) = 0;
  // In functions a constant is a node: it stands before `before` (null: at the end).
  virtual Value* constant(Graph& g, TensorPtr payload, std::string_view name, Node* before) = 0;
  // The borders of a node with bodies whose values have ranks that agree.
  virtual std::vector<Border> borders(Node& n) = 0;
  // How often a node runs its body, as far as known; not for branches.
  virtual Dim trips(const Node& n) = 0;
};

// Chooses layouts so that transposes move the fewest elements. Returns whether anything changed.
//
// A *root* is a value that no transpose makes; transposes are but the other layouts in which somebody reads it. Around each
// transpose, the nodes that could follow one of its two layouts form a region; a minimum cut of the region decides which of them do:
// an edge from a node that follows to one that does not costs the transpose between them, once per layout of a root. What the cut
// finds is done if it costs less than what is there, for small and for large values of the symbols. This repeats until nothing gets cheaper.
// A border of bodies moves as a node does, and what stands inside a loop costs as often as that runs.
bool minimize_transposes(std::span<Graph* const> graphs, PassContext& context, Operators& operators);

}  // namespace sardonyx::layout
