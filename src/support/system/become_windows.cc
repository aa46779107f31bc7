// Apart from the other calls, so that only programs that use it link it: the Python module starts no program.
#include <process.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/system/system.h"

namespace sardonyx::sys {
namespace fs = std::filesystem;

void become(const std::string& program, std::span<const std::string> arguments) {
  // Windows passes one command line, which the C library of the program splits: quote each argument for it.
  std::vector<std::wstring> quoted;
  for (const std::string& argument : arguments) {
    std::wstring text = L"\"";
    size_t slashes = 0;
    for (const wchar_t c : fs::path(argument).wstring()) {
      if (c == L'"') text.append(slashes + 1, L'\\');
      slashes = c == L'\\' ? slashes + 1 : 0;
      text += c;
    }
    text.append(slashes, L'\\');
    quoted.push_back(text + L"\"");
  }
  std::vector<const wchar_t*> pointers;
  for (const std::wstring& a : quoted) pointers.push_back(a.c_str());
  pointers.push_back(nullptr);
  const intptr_t status = ::_wspawnvp(_P_WAIT, fs::path(program).c_str(), pointers.data());
  if (status != -1 || errno == 0) std::exit(static_cast<int>(status));
}

}  // namespace sardonyx::sys
