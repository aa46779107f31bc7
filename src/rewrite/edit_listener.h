// Told what a pipeline does to a model while it runs, for accounts of what each pass saved.
#pragma once

#include <cstddef>
#include <span>

#include "sardonyx/ir.h"
#include "support/thread_scoped.h"

namespace sardonyx {

// While it lives, the pipelines of this thread that run on its model tell it what they do. Runs on other models (copies for
// comparisons) are not told.
class EditListener : public ThreadScoped<EditListener> {
 public:
  virtual ~EditListener() = default;
  EditListener(const EditListener&) = delete;
  EditListener& operator=(const EditListener&) = delete;

  // Null if no one listens to this model.
  static EditListener* of(const Model& m) {
    EditListener* listener = innermost();
    return listener != nullptr && &listener->model_ == &m ? listener : nullptr;
  }

  // --- by pipelines
  virtual void begin_pipeline(size_t num_entries) = 0;
  // A step begins: the walk of entry `first`, or rules, of which `owners` has the entries.
  virtual void begin_step(size_t first, std::span<const size_t> owners) = 0;
  virtual void end_step(bool changed) = 0;
  virtual void step_was_undone() = 0;
  // Types were inferred anew between steps.
  virtual void typed_anew() = 0;

  // --- by the driver of rules
  // Rule `rule` made the nodes `fresh`, of which those with ids from `first_new` on are new and the others moved, and
  // replaced the results of a node by `made` (null: not replaced).
  virtual void fired(size_t rule, std::span<Node* const> fresh, uint32_t first_new, std::span<Value* const> made) = 0;
  virtual void erasing(Node& n) = 0;
  virtual void erased(std::span<Value* const> operands) = 0;  // the node of the last erasing(); none is null

 protected:
  explicit EditListener(const Model& m) : model_(m) {}

 private:
  const Model& model_;
};

}  // namespace sardonyx
