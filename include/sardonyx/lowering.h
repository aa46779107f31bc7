// What lowerings have in common, whatever the dialects: the table of lowerings, and the node being lowered.
// docs/inside/architecture.md has the recipe for a new pair of dialects.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sardonyx/builder.h"
#include "sardonyx/ir.h"

namespace sardonyx::lower {

class Engine;

// Operator -> lowering. Operators outside of the default domain are spelled "domain::Name". Built-in tables
// are constant; a conversion may add or override entries in a table on top of one (user plugins).
template <class Lowering>
class Table {
 public:
  // Lowers one node; returns its results in order, null for results that nobody uses. The engine checks their
  // number, types and shapes against the node.
  using Fn = std::function<std::vector<Value*>(Lowering&)>;

  Table() = default;
  explicit Table(const Table* base) : base_(base) {}

  void add(std::string_view op, Fn fn, std::string_view origin = "builtin") {
    entries_.insert_or_assign(std::string(op), Entry{std::move(fn), std::string(origin)});
  }
  const Fn* find(std::string_view op) const {  // null if there is none
    if (auto at = entries_.find(op); at != entries_.end()) return &at->second.fn;
    return base_ != nullptr ? base_->find(op) : nullptr;
  }
  std::string_view origin(std::string_view op) const {  // where the lowering comes from, for errors
    if (auto at = entries_.find(op); at != entries_.end()) return at->second.origin;
    return base_ != nullptr ? base_->origin(op) : std::string_view();
  }
  std::vector<std::string> names() const {  // sorted
    std::vector<std::string> all = base_ != nullptr ? base_->names() : std::vector<std::string>();
    for (const auto& [name, entry] : entries_) all.push_back(name);
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    return all;
  }

 private:
  struct Entry {
    Fn fn;
    std::string origin;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  const Table* base_ = nullptr;
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
};

// The node being lowered. Values are of the target model unless said otherwise.
class NodeLowering {
 public:
  NodeLowering(Engine& engine, const Node& source, Builder& builder) : node(source), engine_(engine), builder_(builder) {}

  const Node& node;  // of the source model

  size_t num_inputs() const { return node.num_inputs(); }
  bool has(size_t i) const { return node.input(i) != nullptr; }  // whether operand i is given
  Value* in(size_t i) const;                                     // lowered; throws kInvalidModel if absent
  Value* in_or_null(size_t i) const { return has(i) ? in(i) : nullptr; }
  std::vector<Value*> operands() const;  // all that are given
  // The value of all elements of operand i, if it is a constant and they are equal.
  std::optional<double> splat_value(size_t i) const;

  Value* like(const Value* x, double v) const;  // v as a constant of rank 0, rounded to x's element type

  // Lowers a nested graph with `b`: `args` are its inputs; returns its results.
  std::vector<Value*> inline_body(const Graph& body, std::span<Value* const> args, Builder& b) const;

  // Refuses the node; the error reports it with all other refused nodes of the model.
  [[noreturn]] void unsupported(std::string why) const;

 protected:
  void mark(Builder& b) const;  // assigns the nodes that `b` writes from now on to this node

 private:
  Engine& engine_;
  Builder& builder_;
};

// A pair of dialects derives its Lowering from this: `Context` is its engine, `B` the builder of the target.
template <class Context, class B>
class LoweringOf : public NodeLowering {
 public:
  using ContextType = Context;
  using BuilderType = B;
  LoweringOf(Context& context, const Node& source, B& builder)
      : NodeLowering(context, source, builder), b(builder), context_(context) {}

  B& b;
  Context& context() const { return context_; }

  // Writes into a new graph, which becomes a body of the node that replaces this one.
  B new_body(std::string_view name) const {
    B inside(b.model().new_graph(name), b.facts());
    mark(inside);
    return inside;
  }

 protected:
  Context& context_;
};

}  // namespace sardonyx::lower
