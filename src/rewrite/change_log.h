// Records what each pass of a pipeline changed, op by op.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/observe.h"

namespace sardonyx {

// Costs a walk over the model for each step that changes something, and a line for each rule that fires.
class ChangeLog final : public Observer {
 public:
  // A rule that fired and the op that it matched: its type, and its own name or that of its first result.
  struct Firing {
    std::string pass;
    std::string rule;  // empty: the pass has only this rule
    std::string op, name;
  };
  // One entry of the pipeline. The firings of passes whose rules run together are in the first of them.
  struct Entry {
    std::map<std::string, std::pair<size_t, size_t>> ops;  // ops whose count changed: the counts before and after
    std::vector<Firing> firings;                           // rules only: walks record none
  };

  // The entries of all pipelines, in order.
  std::vector<Entry> entries;

  void begin_pipeline(const Model& m, size_t num_entries) override;
  void after_pass(const Model& m, const PassStep& step, bool changed) override;
  void undone(const Model&, const PassStep&) override { firings_.clear(); }
  void fired(const sardonyx::Firing& f, std::span<Node* const> fresh, uint32_t first_new,
             std::span<Value* const> made) override;

 private:
  static std::map<std::string, size_t> count(const Model& m);

  size_t first_entry_ = 0;  // of the running pipeline
  std::map<std::string, size_t> before_;
  std::vector<Firing> firings_;  // since the last step
};

}  // namespace sardonyx
