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
  // Map files instead of reading them into memory. Truncating a mapped file ends the process: turn this off
  // for storage that you do not trust.
  bool map = true;
  // The limit of nested graphs. Reading, passes and writing recurse over them: a level takes some 2 KB of
  // stack in all.
  int max_depth = 1000;
};

// Reads an ONNX model. Names and weights refer to the mapped file, which lives as long as the model. External
// data lies beside the model file (in its folder or below).
//
// A later write keeps all that the file holds: unknown fields, documentation, metadata, training information.
// Values have the types that the file declares; nothing is inferred, so nodes are unchecked until
// infer_model(). Nodes out of order are sorted.
//
// Throws Error: kIo (cannot be read), kInvalidModel (damaged, cyclic, undefined or doubly defined names,
// wrong external data), kUnsupported (element types and encodings that Sardonyx does not know), kLimit
// (nested too deeply).
std::unique_ptr<Model> read_onnx(const std::filesystem::path& path, const ReadOptions& options = {});

// The same from memory that `keepalive` keeps valid. External data must lie below `folder`; without one it is
// refused.
std::unique_ptr<Model> read_onnx_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                       const std::filesystem::path& folder = {}, const ReadOptions& options = {});

// The files that the model was read from, its own first; empty for models that were not. A writer checks that
// they did not change meanwhile, and never replaces one of them by another model's data.
std::span<const std::shared_ptr<const MappedFile>> source_files(const Model& model);

struct WriteOptions {
  // Where tensors go. Automatic: into the model file, unless that would pass the 2 GiB that protobuf can
  // hold.
  enum class External { kAuto, kNever, kAlways };
  External external = External::kAuto;
  // Smaller tensors stay in the model file.
  uint64_t external_threshold = 1024;
  // Name of the data file, beside the model file; empty: the model file's name + ".data".
  std::string data_file;
  // Starts another data file (its name + ".1", ".2", ...) when one would grow beyond this; 0: one file.
  uint64_t max_data_file_bytes = 0;

  // Add value_info entries for values whose type was inferred. Else only those that the model declares.
  bool inferred_types = false;

  // Sources of nodes, written as metadata_props: none, function and line, or stacks as well.
  enum class Provenance { kOff, kLine, kFull };
  Provenance provenance = Provenance::kLine;

  bool sync = false;  // wait until everything is on the disk
};

// Writes an ONNX model. Weights stream from where they lie. Files appear under their names only when
// complete; if it throws, the old files are still there.
//
// Parts that were read and not changed are written as they were. Values get a name where the format needs
// one, and Identity nodes are added only where it demands them: an input, an initializer or an outer value
// returned under another name, or one value returned under two names. Returns the bytes written, data files
// included.
//
// Throws Error: kIo, kInvalidArgument (the data file would replace a file that another model reads), kLimit
// (kNever and too large), kInvalidModel (interface names that clash, values that no file can hold).
uint64_t write_onnx(const Model& model, const std::filesystem::path& path, const WriteOptions& options = {});

// The file's bytes. Throws kLimit beyond 2 GiB, where only write_onnx() helps. Data never leaves the model.
std::string serialize_onnx(const Model& model, const WriteOptions& options = {});

// ---------------------------------------------------------------------------------------------------------------------
// Core ML

// Reads an ML program: a package (.mlpackage) or a bare model file (.mlmodel) with its weights in the folder
// weights beside it. Ops are those of the mil dialect, one function for each entry point. As with ONNX,
// weights are not copied, a later write keeps all that the file holds, and nothing is inferred.
//
// Throws Error: kIo, kInvalidModel (damaged files, undefined names, weights that are missing, short or
// elsewhere), kUnsupported (models that are no programs, newer formats), kLimit.
std::unique_ptr<Model> read_coreml(const std::filesystem::path& path, const ReadOptions& options = {});

// Reads either format, by the path: folders, .mlpackage and .mlmodel are Core ML, .sx is the text form, all
// else is ONNX.
std::unique_ptr<Model> read_model(const std::filesystem::path& path, const ReadOptions& options = {});

// A Model message in memory that `keepalive` keeps valid. Weights ("@model_path/...") must lie below
// `weights`.
std::unique_ptr<Model> read_coreml_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                         const std::filesystem::path& weights = {}, const ReadOptions& options = {});
// The same for a Program message by itself, of that specification version (9 is iOS 18).
std::unique_ptr<Model> read_mil_program(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                        int64_t specification_version, const std::filesystem::path& weights = {},
                                        const ReadOptions& options = {});

struct CoremlWriteOptions {
  bool sync = false;  // wait until everything is on the disk
  // Hard-link a weights file that does not change instead of copying it, where the file system can. Writing
  // into it later, instead of replacing it, changes both packages.
  bool link_weights = false;
};

// Writes a package if the path ends in .mlpackage, else a bare model file with its weights beside it. Weights
// stream from where they lie. A package appears under its name only when complete; if this throws, the old
// one is still there.
//
// Parts that were read and not changed are written as they were; a package that replaces itself keeps weights
// files that do not change. Constants become const ops before their first user; an identity op is added where
// a result's name would be lost otherwise.
//
// Throws Error: kIo, kInvalidArgument (the target is no package, or holds another model's weights),
// kInvalidModel (types that Core ML does not have, values without a type), kLimit.
void write_coreml(const Model& model, const std::filesystem::path& path, const CoremlWriteOptions& options = {});

// The bytes of the Program message. Weights are written below `weights`, as they would lie beside a model
// file.
std::string serialize_mil_program(const Model& model, const std::filesystem::path& weights = {});

// One tensor, one type as a protobuf message, for Python's interchange with onnx.
std::string serialize_tensor(const Tensor& tensor, std::string_view name = {});

}  // namespace sardonyx
