// ONNX files: reading from mapped files, writing by streaming.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "sardonyx/ir.h"

namespace sardonyx {

struct ReadOptions {
  // Map files instead of reading them into memory. Somebody who truncates a mapped file ends the process: turn this off for
  // storage that is not to be trusted.
  bool map = true;
  // Graphs within graphs.
  int max_depth = 64;
};

// Reads an ONNX model. Nothing is copied that need not be: names and weights refer to the mapped file, which lives as long as the
// model. Tensors with external data are found beside the model file (in its folder or below).
//
// Everything in the file survives a later write: unknown fields, documentation, metadata, training information. Types of values
// are those the file declares; nothing is inferred, so nodes are unchecked until infer_model(). Nodes out of order are sorted.
//
// Throws Error: kIo (cannot be read), kInvalidModel (damaged, cyclic, undefined or doubly defined names, wrong external data),
// kUnsupported (element types and encodings that Sardonyx does not know), kLimit (nested too deeply).
std::unique_ptr<Model> read_onnx(const std::filesystem::path& path, const ReadOptions& options = {});

// The same from memory that `keepalive` keeps valid. External data is looked for below `folder`; without it, it is refused.
std::unique_ptr<Model> read_onnx_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                       const std::filesystem::path& folder = {}, const ReadOptions& options = {});

}  // namespace sardonyx
