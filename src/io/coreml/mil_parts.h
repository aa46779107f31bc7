// Parts of Core ML files shared by reader and writer. io/coreml/fields_coreml.h names their fields.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/onnx/onnx_parts.h"
#include "io/wire.h"
#include "sardonyx/io.h"

namespace sardonyx::mil_file {

using onnx_file::ExternalFiles;

// The prefix of weight paths: the folder of the model file.
constexpr std::string_view kModelPath = "@model_path/";
constexpr std::string_view kWeightFile = "@model_path/weights/weight.bin";

// MIL's numbers for element types; kUndefined or 0 if there is none.
DType dtype_of(uint64_t number);
uint32_t number_of(DType dtype);
// ArrayFeatureType.ArrayDataType; 0 where there is none.
uint32_t array_number(DType t);

// ---------------------------------------------------------------------------------------------------------------------
// Blob files (storage version 2): a header of 64 bytes {u32 count, u32 version, 0...}, then for each tensor
// 64 bytes {u32 sentinel, u32 element type, u64 size, u64 offset of the bytes, u64 unused bits, 0...} and its
// bytes, each at a multiple of 64. Little-endian.

constexpr uint64_t kBlobAlignment = 64;
constexpr uint32_t kBlobVersion = 2;
constexpr uint32_t kBlobSentinel = 0xdeadbeef;
uint32_t blob_number_of(DType dtype);  // 0: blob files cannot hold it

// Reads the tensor with metadata at `offset`. Throws kInvalidModel if it differs from what the program
// declares.
TensorPtr read_blob(const std::shared_ptr<const MappedFile>& file, uint64_t offset, DType dtype, std::vector<int64_t> shape);

// ---------------------------------------------------------------------------------------------------------------------
// Types and values

struct FileSource {
  const char* origin = nullptr;  // first byte of the file; error positions are relative to it
  std::shared_ptr<const void> keepalive;
  const MappedFile* file = nullptr;           // null for models in memory
  std::deque<std::string>* joined = nullptr;  // concatenated bytes; part of keepalive
  std::unordered_map<const Tensor*, TensorPtr>* spelled_out = nullptr;
  bool wide_blobs = false;  // see belongs_in_blob
};

class TypeReader {
 public:
  TypeReader(Types& types, const char* origin) : types_(types), origin_(origin) {}

  struct Result {
    const Type* type = nullptr;
    bool lossy = false;  // `type` cannot represent everything: write the original bytes back
  };
  // Each unknown size becomes a separate unknown, or, for inputs of functions, a new symbol "is0", "is1", ...
  Result read(std::string_view wire, bool symbols = false);

 private:
  Result parse(std::string_view wire, int depth);
  Result parse_tensor(std::string_view wire);
  Dim parse_dim(std::string_view wire, bool* variadic);

  Types& types_;
  const char* origin_;
  bool symbols_ = false;
  bool unknown_ = false;  // the current type has an unknown size
  int next_symbol_ = 0;
  std::unordered_map<std::string_view, Result> seen_;
};

// A Value message.
struct ValueRead {
  TensorPtr tensor;            // null: a dictionary, a tuple, or a list with non-scalar elements
  const Type* type = nullptr;  // a list has a tensor of rank 1 as payload
  bool extra = false;          // it has documentation or unknown fields
};
ValueRead read_value(std::string_view wire, const FileSource& source, ExternalFiles& weights, TypeReader& types);

// Whether coremltools would put a new constant into the blob file. `wide`: wider integers too, from
// specification version 9 on.
bool belongs_in_blob(const Tensor& t, bool wide);

// The content of a ValueType message; of a constant, it needs no interned type.
std::string encode_type(const Type* t, const Types& types);
std::string encode_tensor_type(DType dtype, std::span<const int64_t> shape);
std::string encode_list_type(DType element, int64_t length);

// The fields of a ModelDescription that describe a function, in the form of a FunctionDescription; the others
// go to `rest`.
std::string as_function(std::string_view description, std::string& rest);

// ---------------------------------------------------------------------------------------------------------------------
// Packages

struct Package {
  std::filesystem::path folder, model;  // model: the model file
  std::string model_path;               // the same, relative to folder
  std::string manifest;
};
// Throws kInvalidModel if the manifest names no model, kIo if files are missing.
Package open_package(const std::filesystem::path& folder);
// The manifest of a package with that model file. Adds an item for the weights if `weights` is set and `old`
// has none.
std::string make_manifest(const std::string& old, bool weights, std::string* model_path);

// A folder that appears complete under its name, or not at all. A symbolic link with its name is replaced,
// not the link's target.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  const std::filesystem::path& temporary() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path target_, temporary_;
};

}  // namespace sardonyx::mil_file
