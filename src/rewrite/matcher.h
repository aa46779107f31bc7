// Matcher: a pattern, flattened for one dialect, that is tried on nodes.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx {

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
  // One look at the root's operands: false if match() cannot succeed. Cheaper than finding out by match().
  bool could_match(const Node& root) const;

  // Operators that the root can be, as pairs first id, last id. Empty: operators that no table knows.
  std::vector<std::pair<uint32_t, uint32_t>> root_ops() const;
  // Whether the model has the operators of at least one alternative.
  bool can_match(const Model& m) const;
  // The same, closer: whether nodes that may stand for each step are in a graph that has one node for each way in which an op and the ops
  // that it reads meet in a program.
  bool can_match_like(const Graph& samples) const;
  const std::vector<std::string_view>& vars() const { return vars_; }

 private:
  using Ids = std::vector<std::pair<uint32_t, uint32_t>>;
  // What one look at a value must find for a step, its alternatives taken together.
  struct Look {
    bool absent = false, constant = false, any = false;
    bool unknown_op = false;  // operators that no table knows: they are told apart later
    Ids ops;
  };
  struct Step {
    Pattern::Kind kind = Pattern::Kind::kAny;
    bool sole = false;
    bool commutative = false;
    bool open_ended = false;  // the operands end in `rest`
    uint32_t first_id = 1, last_id = 0;
    uint32_t result = 0;
    double number = 0, tolerance = 0;
    Trait trait{};
    std::string_view domain, name;  // of an operator that no table knows
    std::vector<uint16_t> vars, children;
    Look look;
    const std::vector<std::pair<std::string, Attr>>* attrs = nullptr;
  };
  struct Goal;
  struct Run;

  uint16_t add(const Pattern& p, DialectId dialect, int commutative_depth);
  Ids ops_of(const Step& s) const;
  static bool is_op(const Step& s, const Node& n) {
    if (s.first_id <= s.last_id) return n.op().id >= s.first_id && n.op().id <= s.last_id;
    return !s.name.empty() && !n.op().known && n.op().name == s.name && n.op().domain == s.domain;
  }
  void look_for(const Step& s, Look& look) const;
  bool could(uint16_t step, const Value* v) const;
  bool could_root(const Step& s, const Node& root) const;
  template <class F>
  bool is_possible(uint16_t step, const F& has_op, std::vector<int8_t>& known) const;

  Pattern pattern_;  // keeps what steps point at
  DialectId dialect_;
  std::vector<Step> steps_;
  std::vector<std::string_view> vars_;
  std::map<const Pattern::Data*, uint16_t> shared_;  // while it is built
};

}  // namespace sardonyx
