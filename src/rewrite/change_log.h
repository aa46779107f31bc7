// What passes changed, op by op, for runs that ask.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/ir.h"
#include "support/thread_scoped.h"

namespace sardonyx {

// While it lives, pipelines of this thread put down here what each of their passes changed. It costs a walk over the model for each pass that
// changes something, and a line for each rule that fires.
class ChangeLog : public ThreadScoped<ChangeLog> {
 public:
  // A rule that fired, and the op that it was at: its type, and its own name or that of its first result.
  struct Firing {
    std::string rule;  // empty: the only one of its pass
    std::string op, name;
  };
  // One entry of the pipeline.
  struct Entry {
    std::map<std::string, std::pair<size_t, size_t>> ops;  // types of which there are more or fewer: how many before, and after
    std::vector<Firing> firings;                           // of rules; walks have none
  };

  // Entries of the pipeline that ran last, in its order.
  std::vector<Entry> entries;

  // --- for pipelines and rules

  void begin(const Model& m, size_t num_entries);
  // Entry `i` has run, and changed the model; firings since the last one are its.
  void changed(const Model& m, size_t i);
  // What the entry did was taken back.
  void undone() { firings_.clear(); }
  void fired(std::string_view rule, const Node& at);
  void takes_back_last() { firings_.pop_back(); }

 private:
  static std::map<std::string, size_t> count(const Model& m);

  std::map<std::string, size_t> before_;
  std::vector<Firing> firings_;
};

}  // namespace sardonyx
