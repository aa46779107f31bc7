// Records what each pass changed, op by op, for runs that ask for it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/ir.h"
#include "support/thread_scoped.h"

namespace sardonyx {

// While it lives, pipelines of this thread record here what each of their passes changed. This costs a walk
// over the model for each pass that changes something, and a line for each rule that fires.
class ChangeLog : public ThreadScoped<ChangeLog> {
 public:
  // A rule that fired and the op that it matched: its type, and its own name or that of its first result.
  struct Firing {
    std::string pass;
    std::string rule;  // empty: the pass has only this rule
    std::string op, name;
  };
  // One entry of the pipeline.
  struct Entry {
    std::map<std::string, std::pair<size_t, size_t>> ops;  // ops whose count changed: the counts before and after
    std::vector<Firing> firings;                           // rules only: walks record none
  };

  // The entries of the pipeline that ran last, in order.
  std::vector<Entry> entries;

  // Called when a pipeline begins.
  std::function<void(const Model& m)> on_begin;

  // Called after each step that changed the model, with the name of its first pass and what its rules did. Passes of
  // rules that run together are one step.
  std::function<void(const Model& m, std::string_view pass, const std::vector<Firing>& firings)> on_step;

  // --- for pipelines and rules

  void begin(const Model& m, size_t num_entries);
  // Entry `i`, the pass `name`, ran and changed the model; the firings since the previous entry belong to it.
  void changed(const Model& m, size_t i, std::string_view name);
  // The entry was undone.
  void undone() { firings_.clear(); }
  void fired(std::string_view pass, std::string_view rule, const Node& at);
  // `provenance` of `m` with the rule that fired last.
  uint32_t with_rule(Model& m, uint32_t provenance) const;
  void takes_back_last() { firings_.pop_back(); }

 private:
  static std::map<std::string, size_t> count(const Model& m);

  std::map<std::string, size_t> before_;
  std::vector<Firing> firings_;
};

}  // namespace sardonyx
