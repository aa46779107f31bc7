// Tells rules where the nodes that they match come from, for nodes that say it in the metadata of their file.
#pragma once

#include "sardonyx/ir.h"
#include "support/thread_scoped.h"

namespace sardonyx {

// While it lives, rules of this thread that fire on its model ask it about matched nodes that have metadata and no provenance.
// Reading metadata takes longer than most rewrites, so nodes that no rule replaces are not asked about.
class OriginReader : public ThreadScoped<OriginReader> {
 public:
  virtual ~OriginReader() = default;
  OriginReader(const OriginReader&) = delete;
  OriginReader& operator=(const OriginReader&) = delete;

  // Null if there is none for this model.
  static OriginReader* of(const Model& m) {
    OriginReader* reader = innermost();
    return reader != nullptr && &reader->model_ == &m ? reader : nullptr;
  }
  // Sets the provenance of n, if its metadata tells.
  virtual void read(Node& n) = 0;

 protected:
  explicit OriginReader(const Model& m) : model_(m) {}

 private:
  const Model& model_;
};

}  // namespace sardonyx
