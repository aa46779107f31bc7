// ONNX and Core ML files: reading from mapped files, writing by streaming.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "sardonyx/ir.h"

namespace sardonyx {

class MappedFile;

struct ReadOptions {
  // Map files instead of reading them into memory. Truncating a mapped file kills the process: disable this
  // for storage that you do not trust.
  bool map = true;
  // Maximum depth of nested graphs. Reading, passes and writing recurse over them and use about 2 KB of stack
  // per level.
  int max_depth = 1000;
};

// Reads an ONNX model. Names and weights refer to the mapped file, which lives as long as the model. External
// data must be beside the model file (in its folder or below).
//
// A later write preserves everything in the file: unknown fields, documentation, metadata, training
// information. Values have the types that the file declares; nothing is inferred, so nodes are unchecked
// until infer_model(). Nodes out of order are sorted.
//
// Throws Error: kIo (cannot be read), kInvalidModel (damaged, cyclic, undefined or duplicate names, wrong
// external data), kUnsupported (unknown element types and encodings), kLimit (nested too deeply).
std::unique_ptr<Model> read_onnx(const std::filesystem::path& path, const ReadOptions& options = {});

// Reads from memory that `keepalive` keeps valid. External data must be inside `folder`; without a folder it
// is refused.
std::unique_ptr<Model> read_onnx_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                       const std::filesystem::path& folder = {}, const ReadOptions& options = {});

// The files that the model was read from, its own first; empty if it was not read from files. Writers check
// that these files did not change, and never replace one of them with another model's data.
std::span<const std::shared_ptr<const MappedFile>> source_files(const Model& model);

struct WriteOptions {
  // Where tensors are stored. Automatic: in the model file, unless it would exceed protobuf's 2 GiB.
  enum class External { kAuto, kNever, kAlways };
  External external = External::kAuto;
  // Smaller tensors stay in the model file.
  uint64_t external_threshold = 1024;
  // Name of the data file, beside the model file. Empty: the model file's name + ".data".
  std::string data_file;
  // Maximum size of a data file; the next one is called name + ".1", ".2", and so on. 0: one file.
  uint64_t max_data_file_bytes = 0;

  // Add value_info entries for inferred types too, not only for those that the model declares.
  bool inferred_types = false;

  // Sources of nodes, written as metadata_props: none, function and line, or complete stacks.
  enum class Provenance { kOff, kLine, kFull };
  Provenance provenance = Provenance::kLine;

  bool sync = false;  // wait until everything is on disk
};

// Writes an ONNX model. Weights are streamed. Files appear under their names only when complete; if this
// throws, the old files are unchanged.
//
// Unchanged parts of a file are written as they were read. Values get a name where the format needs one.
// Identity nodes are added only where the format demands them: for an input, an initializer or an outer value
// returned under another name, or one value returned under two names. Returns the bytes written, data files
// included.
//
// Throws Error: kIo, kInvalidArgument (the data file would replace a file that another model reads), kLimit
// (kNever and too large), kInvalidModel (interface names that clash, values that no file can hold).
uint64_t write_onnx(const Model& model, const std::filesystem::path& path, const WriteOptions& options = {});

// Returns the file's bytes, with all data inside. Throws kLimit beyond 2 GiB, where only write_onnx() works.
std::string serialize_onnx(const Model& model, const WriteOptions& options = {});

// ---------------------------------------------------------------------------------------------------------------------
// Core ML

// Reads an ML program: a package (.mlpackage), or a bare model file (.mlmodel) with its weights in the folder
// weights beside it. Ops are those of the mil dialect; each entry point is a function. As with ONNX, weights
// are not copied, a later write preserves everything in the file, and nothing is inferred.
//
// Throws Error: kIo, kInvalidModel (damaged files, undefined names, weights that are missing, truncated or
// outside the folder), kUnsupported (models that are not programs, newer formats), kLimit.
std::unique_ptr<Model> read_coreml(const std::filesystem::path& path, const ReadOptions& options = {});

// Reads any format, chosen by the path: folders, .mlpackage and .mlmodel are Core ML, .sx is the text form,
// and everything else is ONNX.
std::unique_ptr<Model> read_model(const std::filesystem::path& path, const ReadOptions& options = {});

// Reads a Model message from memory that `keepalive` keeps valid. Weights ("@model_path/...") must be inside
// `weights`.
std::unique_ptr<Model> read_coreml_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                         const std::filesystem::path& weights = {}, const ReadOptions& options = {});
// The same for a bare Program message of that specification version (9 is iOS 18).
std::unique_ptr<Model> read_mil_program(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                        int64_t specification_version, const std::filesystem::path& weights = {},
                                        const ReadOptions& options = {});

struct CoremlWriteOptions {
  bool sync = false;  // wait until everything is on disk
  // Hard-link an unchanged weights file instead of copying it, if the file system can. Modifying it in place
  // later changes both packages.
  bool link_weights = false;
};

// Writes a package if the path ends in .mlpackage, else a bare model file with its weights beside it. Weights
// are streamed. A package appears under its name only when complete; if this throws, the old one is
// unchanged.
//
// Unchanged parts are written as they were read; a package that replaces itself keeps unchanged weights
// files. Constants become const ops before their first user. An identity op is added where a result's name
// would be lost otherwise.
//
// Throws Error: kIo, kInvalidArgument (the target is not a package, or holds another model's weights),
// kInvalidModel (types that Core ML does not have, values without a type), kLimit.
void write_coreml(const Model& model, const std::filesystem::path& path, const CoremlWriteOptions& options = {});

// Returns the bytes of the Program message. Weights are written to `weights`, laid out as beside a model
// file.
std::string serialize_mil_program(const Model& model, const std::filesystem::path& weights = {});

// A tensor or a type as a protobuf message, for Python's interchange with onnx.
std::string serialize_tensor(const Tensor& tensor, std::string_view name = {});

}  // namespace sardonyx
