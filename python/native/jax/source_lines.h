// Where an equation was written: the user's line and the module path, from JAX's source_info.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <unordered_map>

#include "sardonyx/ir.h"

namespace sardonyx::python {

// How much of an equation's origin is kept: nothing; file name, line, function and scope; whole paths and the stack too.
enum class SourceDetail { kOff, kLine, kFull };

// Remembers what it found per traceback, per name stack and per combination, so that an equation costs two look-ups.
//
// The user's frame is the innermost one outside JAX, the standard library and installed packages; if there is none before our
// own frames begin, the innermost one outside JAX and the standard library (a model that is itself installed, or Flax's code).
//
// With kFull, Source::stack has a frame per line, the innermost first; those inside JAX and the standard library begin with a tab.
class SourceLines {
 public:
  SourceLines(Model& model, SourceDetail level);

  // Looks up where JAX and the standard library are installed, which is done once per process.
  static void prepare();

  // Index of a scope: `outer` followed by the name stack of an equation's source_info. 0 = the top.
  uint32_t scope(uint32_t outer, nanobind::handle source_info);
  // Index of the user's line; that of the equation around it where JAX knows none, as in library functions under jit.
  uint32_t place(uint32_t outer, nanobind::handle source_info);
  // An index into Model::provenance(), 0 when switched off.
  uint32_t provenance(uint32_t place, uint32_t scope, const Op& op);

 private:
  enum class FrameKind : uint8_t { kInside, kLibrary, kUser, kOurs };
  struct Place {
    std::string file, function, stack;
    int line = 0;
  };
  FrameKind frame_kind(PyObject* code);
  uint32_t place_of(nanobind::handle traceback);
  std::string frame_text(PyObject* code, int line, bool path) const;

  Model& model_;
  SourceDetail level_;
  std::unordered_map<PyObject*, FrameKind> files_;  // by the text of its name; alive as long as the tracebacks
  nanobind::dict places_by_traceback_;              // Traceback hashes and compares by its frames, in C++
  std::vector<Place> places_;
  struct NameStack {
    nanobind::object object;
    std::string text;
    uint32_t index = 0;
  };
  std::unordered_map<PyObject*, NameStack> stacks_;
  std::unordered_map<std::string, uint32_t> scope_ids_;
  std::unordered_map<uint64_t, uint32_t> scope_cache_;  // outer scope, name stack -> scope
  std::vector<std::string> scopes_;
  std::unordered_map<uint64_t, uint32_t> known_;  // place, scope, op -> provenance
};

}  // namespace sardonyx::python
