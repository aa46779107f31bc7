// The numbers of ONNX's AttributeProto.AttributeType.
#pragma once

namespace sardonyx::attribute_type {

enum AttributeType : int {
  kUndefined = 0,  // files of IR version 1 do not state the type
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kType = 13,
  kTypes = 14,
};

}  // namespace sardonyx::attribute_type
