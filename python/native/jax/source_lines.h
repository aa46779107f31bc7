// The user's source line and module path of an equation, from JAX's source_info.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <unordered_map>

#include "sardonyx/ir.h"

namespace sardonyx::python {

// How much of an equation's origin to keep: nothing; file name, line, function and scope; full paths and the
// stack too.
enum class SourceDetail { kOff, kLine, kFull };

// Caches results per traceback, per name stack and per combination, so that an equation costs two look-ups.
//
// The user's frame is the innermost one outside JAX, the standard library and installed packages. If there is
// none before Sardonyx's own frames begin, it is the innermost one outside JAX and the standard library (a
// model that is itself installed, or Flax's code).
//
// With kFull, Source::stack has one frame per line, the innermost first. Frames inside JAX and the standard
// library begin with a tab.
class SourceLines {
 public:
  SourceLines(Model& model, SourceDetail level);

  // Finds out where JAX and the standard library are installed, once per process.
  static void prepare();

  // The index of a scope: `outer` followed by the name stack of an equation's source_info. 0 is the top
  // level.
  uint32_t scope(uint32_t outer, nanobind::handle source_info);
  // The index of the user's line. Falls back to the line of the enclosing equation where JAX knows none, as
  // in library functions under jit.
  uint32_t place(uint32_t outer, nanobind::handle source_info);
  // An index into Model::provenance(); 0 when switched off.
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
  std::unordered_map<PyObject*, FrameKind> files_;  // by file name string; alive as long as the tracebacks
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
