// Pieces of Core ML files that reader and writer share. Field numbers are those of MIL.proto and Model.proto.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/onnx_parts.h"
#include "io/wire.h"
#include "sardonyx/io.h"

namespace sardonyx::mil_file {

using onnx_file::ExternalFiles;

// Where weights are said to be: below the folder of the model file.
constexpr std::string_view kModelPath = "@model_path/";
constexpr std::string_view kWeightFile = "@model_path/weights/weight.bin";

// MIL's numbers of element types; kUndefined and 0 where there is none.
DType dtype_of(uint64_t number);
uint32_t number_of(DType dtype);

// ---------------------------------------------------------------------------------------------------------------------
// Blob files (storage version 2): a header {u32 count, u32 version, 0...} of 64 bytes, then for each tensor 64 bytes {u32 sentinel,
// u32 element type, u64 size, u64 offset of the bytes, u64 unused bits, 0...} and the bytes, each at a multiple of 64. Little-endian.

constexpr uint64_t kBlobAlignment = 64;
constexpr uint32_t kBlobVersion = 2;
constexpr uint32_t kBlobSentinel = 0xdeadbeef;
uint32_t blob_number_of(DType dtype);  // 0: blob files cannot hold it

// The tensor whose metadata stands at `offset`. Throws kInvalidModel when it is not what the program says.
TensorPtr read_blob(const std::shared_ptr<const MappedFile>& file, uint64_t offset, DType dtype, std::vector<int64_t> shape);

// ---------------------------------------------------------------------------------------------------------------------
// Types and values

struct FileSource {
  const char* origin = nullptr;  // first byte of the file; positions in errors count from here
  std::shared_ptr<const void> keepalive;
  const MappedFile* file = nullptr;           // null for models in memory
  std::deque<std::string>* joined = nullptr;  // bytes that were put together; part of keepalive
  std::unordered_map<const Tensor*, TensorPtr>* spelled_out = nullptr;
  bool wide_blobs = false;  // see belongs_in_blob
};

class TypeReader {
 public:
  TypeReader(Types& types, const char* origin) : types_(types), origin_(origin) {}

  struct Result {
    const Type* type = nullptr;
    bool odd = false;  // says more than `type` can: write what was read
  };
  // Sizes that are not known: each is an unknown of its own, or, for inputs of functions, a new symbol "is0", "is1", ...
  Result read(std::string_view wire, bool symbols = false);

 private:
  Result parse(std::string_view wire, int depth);
  Result parse_tensor(std::string_view wire);
  Dim parse_dim(std::string_view wire, bool* variadic);

  Types& types_;
  const char* origin_;
  bool symbols_ = false;
  bool unknown_ = false;  // the present type has a size that is not known
  int next_symbol_ = 0;
  std::unordered_map<std::string_view, Result> seen_;
};

// A Value message.
struct ValueRead {
  TensorPtr tensor;            // null: a dictionary, a tuple, a list of anything but scalars
  const Type* type = nullptr;  // a list has a tensor of rank 1 as payload
  bool extra = false;          // it has documentation or fields that are not known
};
ValueRead read_value(std::string_view wire, const FileSource& source, ExternalFiles& weights, TypeReader& types);

// Whether coremltools would put a new constant into the blob file. `wide`: from specification version 9 on, wider integers too.
bool belongs_in_blob(const Tensor& t, bool wide);

// The content of a ValueType message.
std::string encode_type(const Type* t, const Types& types);

// ---------------------------------------------------------------------------------------------------------------------
// Packages

struct Package {
  std::filesystem::path folder, model;  // model: the model file
  std::string model_path;               // the same, relative to folder
  std::string manifest;
};
// Throws kInvalidModel when the manifest leads to no model, kIo when files are missing.
Package open_package(const std::filesystem::path& folder);
// The manifest of a package with that model file; adds the weights' item where `old` has none and `weights` says so.
std::string make_manifest(const std::string& old, bool weights, std::string* model_path);

// A folder that is written: complete under its name, or not there at all. A symbolic link at its name is replaced, not what it leads to.
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
