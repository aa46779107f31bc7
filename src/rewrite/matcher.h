// Matcher: a pattern, flattened for one dialect, that is tried on nodes.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx {

// A set of operators, whatever their versions. Where a dialect has more than fit, operators share bits: a set may seem to have more than
// was put in, never less.
using OpBits = std::bitset<256>;
// The operators that the model, or the graph without its bodies, has nodes of.
OpBits op_bits(const Model& m);
OpBits op_bits(const Graph& g);
// Those of the names, of the dialect's own domain; a name that ends in '*' stands for all that begin so. Throws kInternal for names that no
// table knows.
OpBits op_bits(std::span<const std::string_view> names, DialectId dialect);

// Immutable once built, and shared between runs: what a match finds lives in a Match. No allocation while matching.
class Matcher {
 public:
  // Throws kInternal for patterns that cannot work: too many variables, `rest` before other operands, commutative operators nested
  // more than four deep (their orders would multiply).
  Matcher(const Pattern& p, DialectId dialect);

  // The same, compiled once in the process: rules of the catalogue live as long as it does. Keeps p alive.
  static const Matcher& of(const Pattern& p, DialectId dialect);

  // Whether the node matches and `accept` (the rule's condition; may be empty) agrees; *m says how. Tries every alternative and every
  // order of commutative operands until `accept` agrees. Stays within the node's graph: what lies outside is a leaf.
  bool match(Node& root, PassContext& context, const Condition& accept, Match* m) const;
  // False if match() cannot succeed, by the operators that make the root's operands. Cheaper than match().
  bool may_match(const Node& root) const;

  // Operators that the root can be, as pairs first id, last id. Empty: operators that no table knows.
  std::span<const std::pair<uint32_t, uint32_t>> root_ops() const { return roots_; }
  // Whatever matches has all operators of at least one of these sets; and those that are in all of them.
  std::span<const OpBits> needs() const { return needs_; }
  OpBits always_needs() const;
  // Closer: whether nodes that may stand for each step are in a graph that has one node for each way in which an op and the ops that it
  // reads meet in a program.
  bool can_match_like(const Graph& samples) const;
  const std::vector<std::string_view>& vars() const { return vars_; }

 private:
  using Ids = std::vector<std::pair<uint32_t, uint32_t>>;
  // What a step accepts in the place of an operand, as far as the value and the operator that makes it tell; its alternatives taken together.
  enum : uint8_t {
    kAbsent = 1,
    kConstant = 2,
    kAny = 4,
    kUnknownOp = 8,  // operators that no table knows: they are told apart later
  };
  // Lists stand in tables of the matcher: where they begin, and how long they are.
  struct Step {
    Pattern::Kind kind = Pattern::Kind::kAny;
    bool leaf = false;  // decided by the value alone: neither an operator nor alternatives
    bool sole = false;
    bool commutative = false;
    bool open_ended = false;  // the operands end in `rest`
    uint8_t accepts = 0;      // of kAbsent ... kUnknownOp
    uint16_t vars_at = 0, vars = 0;
    uint16_t children_at = 0, children = 0;
    uint16_t accepted_ops_at = 0, accepted_ops = 0;  // besides, values that these operators make
    uint32_t first_id = 1, last_id = 0;
    uint32_t result = 0;
    Trait trait{};
    double number = 0, tolerance = 0;
    std::string_view domain, name;  // of an operator that no table knows
    const std::vector<std::pair<std::string, Attr>>* attrs = nullptr;
  };
  struct Goal;
  struct Run;

  // While it is built: steps by what they are of, lists of each step.
  struct Building;

  uint16_t add(const Pattern& p, int commutative_depth, Building& building);
  void add_ops(const Step& s, Ids& ids) const;
  static bool is_op(const Step& s, const Node& n) {
    if (s.first_id <= s.last_id) return n.op().id >= s.first_id && n.op().id <= s.last_id;
    return !s.name.empty() && !n.op().known && n.op().name == s.name && n.op().domain == s.domain;
  }
  uint16_t child(const Step& s, size_t i) const { return children_[s.children_at + i]; }
  std::span<const uint16_t> children(const Step& s) const { return {children_.data() + s.children_at, s.children}; }
  void add_accepted(const Step& s, uint8_t& accepts, Ids& ops) const;
  const std::vector<OpBits>& needs_of(uint16_t step, std::span<std::vector<OpBits>> known) const;
  bool may_match_operand(uint16_t step, const Value* v) const;
  bool may_match_operands(const Step& s, const Node& n, bool swapped) const;
  bool may_match_root(const Step& s, const Node& root) const;
  template <class F>
  bool is_possible(uint16_t step, const F& has_op, std::span<int8_t> known) const;

  Pattern pattern_;  // keeps what steps point at
  DialectId dialect_;
  std::vector<Step> steps_;
  std::vector<uint16_t> children_;
  std::vector<uint16_t> step_vars_;
  Ids accepted_ops_;
  Ids roots_;
  std::vector<OpBits> needs_;
  std::vector<std::string_view> vars_;
};

}  // namespace sardonyx
