// Loading plugins (sardonyx/plugin.h).
#pragma once

#include <filesystem>

#include <string>
#include <vector>

#include "sardonyx/lower.h"

namespace sardonyx {

// Attributes that the lowerings of one conversion asked for, to be set after the passes (ConvertOptions::after_passes).
class LateAttributes {
 public:
  void add(Node& node, NamedAttr attribute, std::string origin);
  // Sets them on the nodes that are still there. Throws when an operator refuses its new attributes, or when a result would get another type.
  void set() const;

 private:
  struct Late {
    Node* node;
    NamedAttr attribute;
    std::string origin;
  };
  std::vector<Late> all_;
};

// Adds the lowerings of the plugin to the registry. The shared object stays loaded until the process ends. `late` must outlive the
// registry. Throws Error(kIo) when it is no plugin.
void load_plugin(const std::filesystem::path& path, LoweringRegistry& registry, LateAttributes& late);

}  // namespace sardonyx
