// Loading plugins (sardonyx/plugin.h).
#pragma once

#include <filesystem>

#include <string>
#include <vector>

#include "sardonyx/lower.h"

namespace sardonyx {

// Attributes requested by the lowerings of one conversion, to be set after the passes
// (ConvertOptions::after_passes).
class LateAttributes {
 public:
  void add(Node& node, NamedAttr attribute, std::string origin);
  // Sets them on the nodes that still exist. Throws if an operator refuses its new attributes or a result
  // would change its type.
  void set() const;

 private:
  struct Late {
    Node* node;
    NamedAttr attribute;
    std::string origin;
  };
  std::vector<Late> all_;
};

// Infers the results of a node after its attributes changed. Throws kInvalidModel if the operator refuses
// them or a result has another type than before.
void infer_changed(Node& n);

// Adds the lowerings of the plugin to the registry. The shared object stays loaded until the process ends.
// `late` must outlive the registry. Throws Error(kIo) if the file is not a plugin.
void load_plugin(const std::filesystem::path& path, LoweringRegistry& registry, LateAttributes& late);

}  // namespace sardonyx
