// What the subcommands do; options are parsed in sardonyx_main.cc. Each returns the exit code.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace sardonyx {
class Error;
}

namespace sardonyx::tools {

struct FileArgs {
  std::string input;
  bool no_mmap = false;
};

struct InfoArgs {
  bool json = false;
  bool infer = false;
};
int info(const FileArgs& files, const InfoArgs& args);

int check(const FileArgs& files);

struct OptimizeArgs {
  std::string output;
  std::string passes = "none";
  bool external = false;
  std::string data_file;
  uint64_t threshold = 1024;
  uint64_t max_data_file = 0;
  bool declare_types = false;
};
int optimize(const FileArgs& files, const OptimizeArgs& args);

// To stderr: "error: ..." and the notes below it, indented.
void show_error(const Error& e);
void show_error(const std::exception& e);

}  // namespace sardonyx::tools
