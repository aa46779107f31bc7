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
  bool text = false;
  bool infer = false;
};
int info(const FileArgs& files, const InfoArgs& args);

int check(const FileArgs& files);

// How results are written: what optimize and lower share.
struct OutputArgs {
  std::string output;
  bool external = false;
  std::string data_file;
  uint64_t threshold = 1024;
  uint64_t max_data_file = 0;
};

struct OptimizeArgs {
  std::string passes = "onnx";
  bool strict = false;
  bool declare_types = false;
};
int optimize(const FileArgs& files, const OutputArgs& out, const OptimizeArgs& args);

// A program in text form (files.input), to ONNX.
int lower(const FileArgs& files, const OutputArgs& out, int opset);

// Replaces this process by `python -m sardonyx` with the same arguments. Returns only by throwing (kIo).
void run_python(int argc, char** argv);

// To stderr: "error: ..." and the notes below it, indented.
void show_error(const Error& e);
void show_error(const std::exception& e);

}  // namespace sardonyx::tools
