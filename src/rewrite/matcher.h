// Matcher: a pattern compiled for one dialect and matched against nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/op_bits.h"
#include "rewrite/pass.h"

namespace sardonyx {

// Immutable once built and shared between runs: the state of a match lives in a Match. Matching allocates
// nothing.
class Matcher {
 public:
  // Throws kInternal for patterns that cannot work: too many variables, `rest` before other operands, or
  // commutative operators nested more than four deep (their orders would multiply).
  Matcher(const Pattern& p, DialectId dialect);

  // Whether the node matches and `accept` (the rule's condition; may be empty) agrees; the bindings go to *m.
  // Tries every alternative and every order of commutative operands until `accept` agrees. Stays within the
  // node's graph: values from outside are leaves.
  bool match(Node& root, PassContext& context, const Condition& accept, Match* m) const;
  // For explanations, after match() failed: whether the node matches but for one place, and what differs
  // there. It is slow.
  std::optional<std::string> near_miss(Node& root, PassContext& context) const;
  // False if the operators that make the root's operands rule out a match. Cheaper than match().
  bool may_match(const Node& root) const;

  // The operators that the root can be, as pairs (first id, last id). Empty for operators that no table
  // knows.
  std::span<const std::pair<uint32_t, uint32_t>> root_ops() const { return roots_; }
  // Every match contains all operators of at least one of these sets.
  std::span<const OpBits> needs() const { return needs_; }
  // A sharper test: whether a graph has a candidate node for each step. `samples` has one node for each way
  // in which an op and its operands' ops meet in a program.
  bool can_match_like(const Graph& samples) const;
  const std::vector<std::string_view>& vars() const { return vars_; }

 private:
  using Ids = std::vector<std::pair<uint32_t, uint32_t>>;
  // What a step accepts as an operand, judged by the value and the operator that makes it; the union over
  // alternatives.
  enum : uint8_t {
    kAbsent = 1,
    kConstant = 2,
    kAny = 4,
    kUnknownOp = 8,  // operators that no table knows, compared by name later
  };
  // Lists are ranges of the matcher's tables: start and length.
  struct Step {
    Pattern::Kind kind = Pattern::Kind::kAny;
    bool leaf = false;  // decided by the value alone
    bool sole = false;
    bool commutative = false;
    bool open_ended = false;  // the operands end in `rest`
    uint8_t accepts = 0;      // of kAbsent ... kUnknownOp
    uint16_t vars_at = 0, vars = 0;
    uint16_t children_at = 0, children = 0;
    uint16_t accepted_ops_at = 0, accepted_ops = 0;  // values made by these operators are accepted too
    uint32_t first_id = 1, last_id = 0;
    uint32_t result = 0;
    Trait trait{};
    double number = 0, tolerance = 0;
    std::string_view domain, name;  // an operator that no table knows
    const std::vector<std::pair<std::string, Attr>>* attrs = nullptr;
  };
  struct Goal;
  struct Difference;
  struct Forgiven;
  template <bool kForgives>
  struct Run;

  // State during construction: the step of each pattern, the lists of each step.
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
  size_t fewest_nodes(uint16_t step) const;
  std::string text_of(const Difference& d, const Node& reader) const;
  bool may_match_root(const Step& s, const Node& root) const;
  template <class F>
  bool is_possible(uint16_t step, const F& has_op, std::span<int8_t> known) const;

  Pattern pattern_;  // owns what the steps point at
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
