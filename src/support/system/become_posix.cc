// Apart from the other calls, so that only programs that use it link it: the Python module starts no program.
#include <unistd.h>

#include <vector>

#include "support/system/system.h"

namespace sardonyx::sys {

void become(const std::string& program, std::span<const std::string> arguments) {
  std::vector<char*> pointers;
  for (const std::string& a : arguments) pointers.push_back(const_cast<char*>(a.c_str()));
  pointers.push_back(nullptr);
  ::execvp(program.c_str(), pointers.data());
}

}  // namespace sardonyx::sys
