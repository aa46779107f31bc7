// Written by scripts/tables/gen_fields.py from the descriptors of onnx 1.23.2. Do not edit.
#pragma once

#include "io/wire.h"

// onnx.proto
namespace sardonyx::onnx_file {

struct AttributeProto {
  static constexpr wire::Field kName = wire::field(1, wire::kBytes);
  static constexpr wire::Field kF = wire::field(2, wire::kFixed32);
  static constexpr wire::Field kI = wire::field(3, wire::kVarint);
  static constexpr wire::Field kS = wire::field(4, wire::kBytes);
  static constexpr wire::Field kT = wire::field(5, wire::kBytes);
  static constexpr wire::Field kG = wire::field(6, wire::kBytes);
  static constexpr wire::Field kFloats = wire::field(7, wire::kFixed32);
  static constexpr wire::Field kInts = wire::field(8, wire::kVarint);
  static constexpr wire::Field kStrings = wire::field(9, wire::kBytes);
  static constexpr wire::Field kTensors = wire::field(10, wire::kBytes);
  static constexpr wire::Field kGraphs = wire::field(11, wire::kBytes);
  static constexpr wire::Field kDocString = wire::field(13, wire::kBytes);
  static constexpr wire::Field kTp = wire::field(14, wire::kBytes);
  static constexpr wire::Field kTypeProtos = wire::field(15, wire::kBytes);
  static constexpr wire::Field kType = wire::field(20, wire::kVarint);
  static constexpr wire::Field kRefAttrName = wire::field(21, wire::kBytes);
  static constexpr wire::Field kSparseTensor = wire::field(22, wire::kBytes);
  static constexpr wire::Field kSparseTensors = wire::field(23, wire::kBytes);
};
struct ValueInfoProto {
  static constexpr wire::Field kName = wire::field(1, wire::kBytes);
  static constexpr wire::Field kType = wire::field(2, wire::kBytes);
  static constexpr wire::Field kDocString = wire::field(3, wire::kBytes);
  static constexpr wire::Field kMetadataProps = wire::field(4, wire::kBytes);
};
struct NodeProto {
  static constexpr wire::Field kInput = wire::field(1, wire::kBytes);
  static constexpr wire::Field kOutput = wire::field(2, wire::kBytes);
  static constexpr wire::Field kName = wire::field(3, wire::kBytes);
  static constexpr wire::Field kOpType = wire::field(4, wire::kBytes);
  static constexpr wire::Field kAttribute = wire::field(5, wire::kBytes);
  static constexpr wire::Field kDocString = wire::field(6, wire::kBytes);
  static constexpr wire::Field kDomain = wire::field(7, wire::kBytes);
  static constexpr wire::Field kOverload = wire::field(8, wire::kBytes);
  static constexpr wire::Field kMetadataProps = wire::field(9, wire::kBytes);
  static constexpr wire::Field kDeviceConfigurations = wire::field(10, wire::kBytes);
};
struct IntIntListEntryProto {
  static constexpr wire::Field kKey = wire::field(1, wire::kVarint);
  static constexpr wire::Field kValue = wire::field(2, wire::kVarint);
};
struct NodeDeviceConfigurationProto {
  static constexpr wire::Field kConfigurationId = wire::field(1, wire::kBytes);
  static constexpr wire::Field kShardingSpec = wire::field(2, wire::kBytes);
  static constexpr wire::Field kPipelineStage = wire::field(3, wire::kVarint);
};
struct ShardingSpecProto {
  static constexpr wire::Field kTensorName = wire::field(1, wire::kBytes);
  static constexpr wire::Field kDevice = wire::field(2, wire::kVarint);
  static constexpr wire::Field kIndexToDeviceGroupMap = wire::field(3, wire::kBytes);
  static constexpr wire::Field kShardedDim = wire::field(4, wire::kBytes);
};
struct ShardedDimProto {
  static constexpr wire::Field kAxis = wire::field(1, wire::kVarint);
  static constexpr wire::Field kSimpleSharding = wire::field(2, wire::kBytes);
};
struct SimpleShardedDimProto {
  static constexpr wire::Field kDimValue = wire::field(1, wire::kVarint);
  static constexpr wire::Field kDimParam = wire::field(2, wire::kBytes);
  static constexpr wire::Field kNumShards = wire::field(3, wire::kVarint);
};
struct TrainingInfoProto {
  static constexpr wire::Field kInitialization = wire::field(1, wire::kBytes);
  static constexpr wire::Field kAlgorithm = wire::field(2, wire::kBytes);
  static constexpr wire::Field kInitializationBinding = wire::field(3, wire::kBytes);
  static constexpr wire::Field kUpdateBinding = wire::field(4, wire::kBytes);
};
struct ModelProto {
  static constexpr wire::Field kIrVersion = wire::field(1, wire::kVarint);
  static constexpr wire::Field kProducerName = wire::field(2, wire::kBytes);
  static constexpr wire::Field kProducerVersion = wire::field(3, wire::kBytes);
  static constexpr wire::Field kDomain = wire::field(4, wire::kBytes);
  static constexpr wire::Field kModelVersion = wire::field(5, wire::kVarint);
  static constexpr wire::Field kDocString = wire::field(6, wire::kBytes);
  static constexpr wire::Field kGraph = wire::field(7, wire::kBytes);
  static constexpr wire::Field kOpsetImport = wire::field(8, wire::kBytes);
  static constexpr wire::Field kMetadataProps = wire::field(14, wire::kBytes);
  static constexpr wire::Field kTrainingInfo = wire::field(20, wire::kBytes);
  static constexpr wire::Field kFunctions = wire::field(25, wire::kBytes);
  static constexpr wire::Field kConfiguration = wire::field(26, wire::kBytes);
};
struct DeviceConfigurationProto {
  static constexpr wire::Field kName = wire::field(1, wire::kBytes);
  static constexpr wire::Field kNumDevices = wire::field(2, wire::kVarint);
  static constexpr wire::Field kDevice = wire::field(3, wire::kBytes);
};
struct StringStringEntryProto {
  static constexpr wire::Field kKey = wire::field(1, wire::kBytes);
  static constexpr wire::Field kValue = wire::field(2, wire::kBytes);
};
struct TensorAnnotation {
  static constexpr wire::Field kTensorName = wire::field(1, wire::kBytes);
  static constexpr wire::Field kQuantParameterTensorNames = wire::field(2, wire::kBytes);
};
struct GraphProto {
  static constexpr wire::Field kNode = wire::field(1, wire::kBytes);
  static constexpr wire::Field kName = wire::field(2, wire::kBytes);
  static constexpr wire::Field kInitializer = wire::field(5, wire::kBytes);
  static constexpr wire::Field kDocString = wire::field(10, wire::kBytes);
  static constexpr wire::Field kInput = wire::field(11, wire::kBytes);
  static constexpr wire::Field kOutput = wire::field(12, wire::kBytes);
  static constexpr wire::Field kValueInfo = wire::field(13, wire::kBytes);
  static constexpr wire::Field kQuantizationAnnotation = wire::field(14, wire::kBytes);
  static constexpr wire::Field kSparseInitializer = wire::field(15, wire::kBytes);
  static constexpr wire::Field kMetadataProps = wire::field(16, wire::kBytes);
};
struct TensorProto {
  struct Segment {
    static constexpr wire::Field kBegin = wire::field(1, wire::kVarint);
    static constexpr wire::Field kEnd = wire::field(2, wire::kVarint);
  };
  static constexpr wire::Field kDims = wire::field(1, wire::kVarint);
  static constexpr wire::Field kDataType = wire::field(2, wire::kVarint);
  static constexpr wire::Field kSegment = wire::field(3, wire::kBytes);
  static constexpr wire::Field kFloatData = wire::field(4, wire::kFixed32);
  static constexpr wire::Field kInt32Data = wire::field(5, wire::kVarint);
  static constexpr wire::Field kStringData = wire::field(6, wire::kBytes);
  static constexpr wire::Field kInt64Data = wire::field(7, wire::kVarint);
  static constexpr wire::Field kName = wire::field(8, wire::kBytes);
  static constexpr wire::Field kRawData = wire::field(9, wire::kBytes);
  static constexpr wire::Field kDoubleData = wire::field(10, wire::kFixed64);
  static constexpr wire::Field kUint64Data = wire::field(11, wire::kVarint);
  static constexpr wire::Field kDocString = wire::field(12, wire::kBytes);
  static constexpr wire::Field kExternalData = wire::field(13, wire::kBytes);
  static constexpr wire::Field kDataLocation = wire::field(14, wire::kVarint);
  static constexpr wire::Field kMetadataProps = wire::field(16, wire::kBytes);
};
struct SparseTensorProto {
  static constexpr wire::Field kValues = wire::field(1, wire::kBytes);
  static constexpr wire::Field kIndices = wire::field(2, wire::kBytes);
  static constexpr wire::Field kDims = wire::field(3, wire::kVarint);
};
struct TensorShapeProto {
  struct Dimension {
    static constexpr wire::Field kDimValue = wire::field(1, wire::kVarint);
    static constexpr wire::Field kDimParam = wire::field(2, wire::kBytes);
    static constexpr wire::Field kDenotation = wire::field(3, wire::kBytes);
  };
  static constexpr wire::Field kDim = wire::field(1, wire::kBytes);
};
struct TypeProto {
  struct Tensor {
    static constexpr wire::Field kElemType = wire::field(1, wire::kVarint);
    static constexpr wire::Field kShape = wire::field(2, wire::kBytes);
  };
  struct Sequence {
    static constexpr wire::Field kElemType = wire::field(1, wire::kBytes);
  };
  struct Map {
    static constexpr wire::Field kKeyType = wire::field(1, wire::kVarint);
    static constexpr wire::Field kValueType = wire::field(2, wire::kBytes);
  };
  struct Optional {
    static constexpr wire::Field kElemType = wire::field(1, wire::kBytes);
  };
  struct SparseTensor {
    static constexpr wire::Field kElemType = wire::field(1, wire::kVarint);
    static constexpr wire::Field kShape = wire::field(2, wire::kBytes);
  };
  struct Opaque {
    static constexpr wire::Field kDomain = wire::field(1, wire::kBytes);
    static constexpr wire::Field kName = wire::field(2, wire::kBytes);
  };
  static constexpr wire::Field kTensorType = wire::field(1, wire::kBytes);
  static constexpr wire::Field kSequenceType = wire::field(4, wire::kBytes);
  static constexpr wire::Field kMapType = wire::field(5, wire::kBytes);
  static constexpr wire::Field kDenotation = wire::field(6, wire::kBytes);
  static constexpr wire::Field kOpaqueType = wire::field(7, wire::kBytes);
  static constexpr wire::Field kSparseTensorType = wire::field(8, wire::kBytes);
  static constexpr wire::Field kOptionalType = wire::field(9, wire::kBytes);
};
struct OperatorSetIdProto {
  static constexpr wire::Field kDomain = wire::field(1, wire::kBytes);
  static constexpr wire::Field kVersion = wire::field(2, wire::kVarint);
};
struct FunctionProto {
  static constexpr wire::Field kName = wire::field(1, wire::kBytes);
  static constexpr wire::Field kInput = wire::field(4, wire::kBytes);
  static constexpr wire::Field kOutput = wire::field(5, wire::kBytes);
  static constexpr wire::Field kAttribute = wire::field(6, wire::kBytes);
  static constexpr wire::Field kNode = wire::field(7, wire::kBytes);
  static constexpr wire::Field kDocString = wire::field(8, wire::kBytes);
  static constexpr wire::Field kOpsetImport = wire::field(9, wire::kBytes);
  static constexpr wire::Field kDomain = wire::field(10, wire::kBytes);
  static constexpr wire::Field kAttributeProto = wire::field(11, wire::kBytes);
  static constexpr wire::Field kValueInfo = wire::field(12, wire::kBytes);
  static constexpr wire::Field kOverload = wire::field(13, wire::kBytes);
  static constexpr wire::Field kMetadataProps = wire::field(14, wire::kBytes);
};

}  // namespace sardonyx::onnx_file
