// Observers of conversions and optimizations: what happens to a model while passes run on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace sardonyx {

class Model;
class Node;
class Value;

// Entries of a pipeline that run together: one walk, or rules that share sweeps.
struct PassStep {
  size_t first = 0;                // the first entry
  std::string_view pass;           // its name
  std::span<const size_t> owners;  // the entry of each rule; empty for a walk
};

// A rule and the nodes that it matched.
struct Firing {
  size_t rule = 0;  // in PassStep::owners
  std::string_view pass;
  std::string_view name;           // of the rule; empty if the pass has only this one
  std::span<Node* const> matched;  // the root first
};

// Derived classes override the events that they need. Observers are passed in the options
// (PassRequest::observer and others); pipelines that run inside on copies of the model do not have one. An
// observer changes nothing that is written, and must not throw from rule events. The spans live as long as
// the call.
class Observer {
 public:
  virtual ~Observer() = default;

  // Whether rules add their names to the provenance of what they make (fired_rules.h) until done().
  virtual bool names_rules() const { return false; }

  // --- of a conversion or an optimization
  virtual void function(std::string_view /*name*/) {}  // what follows is about this function of a package
  virtual void stage(std::string_view /*name*/, const Model&) {}
  virtual void done(const Model&) {}  // the result
  // `done` of `total` steps are done; `what` is the next.
  virtual void progress(std::string_view /*what*/, size_t /*done*/, size_t /*total*/) {}
  // A pass in PassRequest::explain left a node alone. `node`: as text, empty for the whole model.
  virtual void near_miss(std::string_view /*pass*/, std::string_view /*node*/, std::string_view /*why*/) {}

  // --- of a pipeline
  virtual void begin_pipeline(const Model&, size_t /*num_entries*/) {}
  virtual void before_pass(const Model&, const PassStep&) {}
  virtual void after_pass(const Model&, const PassStep&, bool /*changed*/) {}
  virtual void undone(const Model&, const PassStep&) {}  // instead of after_pass(): the pass failed
  virtual void typed_anew(const Model&) {}               // types were inferred again between steps

  // --- of rules
  virtual void firing(Model&, const Firing&) {}  // before the rule builds anything, and may decline
  // The rule made the nodes `fresh`, of which those with ids from `first_new` on are new and the others
  // moved, and replaced the results of the root by `made` (null: not replaced).
  virtual void fired(const Firing&, std::span<Node* const> /*fresh*/, uint32_t /*first_new*/,
                     std::span<Value* const> /*made*/) {}
  virtual void erasing(const Node&) {}
  virtual void erased(std::span<Value* const> /*operands*/) {}  // those of the last erasing(); none is null
};

// Forwards each event to several observers, in order.
class Observers final : public Observer {
 public:
  // Null is ignored. The observer must outlive this object.
  void add(Observer* o) {
    if (o != nullptr) all_.push_back(o);
  }
  // What to pass on: null if there is none.
  Observer* get() { return all_.empty() ? nullptr : all_.size() == 1 ? all_[0] : this; }

  bool names_rules() const override {
    return std::ranges::any_of(all_, [](const Observer* o) { return o->names_rules(); });
  }
  void function(std::string_view name) override { each(&Observer::function, name); }
  void stage(std::string_view name, const Model& m) override { each(&Observer::stage, name, m); }
  void done(const Model& m) override { each(&Observer::done, m); }
  void progress(std::string_view what, size_t done, size_t total) override { each(&Observer::progress, what, done, total); }
  void near_miss(std::string_view pass, std::string_view node, std::string_view why) override {
    each(&Observer::near_miss, pass, node, why);
  }
  void begin_pipeline(const Model& m, size_t num_entries) override { each(&Observer::begin_pipeline, m, num_entries); }
  void before_pass(const Model& m, const PassStep& step) override { each(&Observer::before_pass, m, step); }
  void after_pass(const Model& m, const PassStep& step, bool changed) override {
    each(&Observer::after_pass, m, step, changed);
  }
  void undone(const Model& m, const PassStep& step) override { each(&Observer::undone, m, step); }
  void typed_anew(const Model& m) override { each(&Observer::typed_anew, m); }
  void firing(Model& m, const Firing& f) override { each(&Observer::firing, m, f); }
  void fired(const Firing& f, std::span<Node* const> fresh, uint32_t first_new, std::span<Value* const> made) override {
    each(&Observer::fired, f, fresh, first_new, made);
  }
  void erasing(const Node& n) override { each(&Observer::erasing, n); }
  void erased(std::span<Value* const> operands) override { each(&Observer::erased, operands); }

 private:
  template <class... Args>
  void each(void (Observer::*event)(Args...), std::type_identity_t<Args>... args) {
    for (Observer* o : all_) (o->*event)(args...);
  }

  std::vector<Observer*> all_;
};

// Records what each pass of a pipeline changed, op by op. Costs a walk over the model for each step that
// changes something, and a line for each rule that fires.
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
