// Written by scripts/tables/gen_fields.py from the descriptors of coremltools 9.0. Do not edit.
#pragma once

#include "io/wire.h"

// MIL.proto
namespace sardonyx::milspec {

struct Program {
  static constexpr wire::Field kVersion = wire::field(1, wire::kVarint);
  static constexpr wire::Field kFunctions = wire::field(2, wire::kBytes);
  static constexpr wire::Field kDocString = wire::field(3, wire::kBytes);
  static constexpr wire::Field kAttributes = wire::field(4, wire::kBytes);
};
struct Function {
  static constexpr wire::Field kInputs = wire::field(1, wire::kBytes);
  static constexpr wire::Field kOpset = wire::field(2, wire::kBytes);
  static constexpr wire::Field kBlockSpecializations = wire::field(3, wire::kBytes);
  static constexpr wire::Field kAttributes = wire::field(4, wire::kBytes);
};
struct Block {
  static constexpr wire::Field kInputs = wire::field(1, wire::kBytes);
  static constexpr wire::Field kOutputs = wire::field(2, wire::kBytes);
  static constexpr wire::Field kOperations = wire::field(3, wire::kBytes);
  static constexpr wire::Field kAttributes = wire::field(4, wire::kBytes);
};
struct Argument {
  struct Binding {
    static constexpr wire::Field kName = wire::field(1, wire::kBytes);
    static constexpr wire::Field kValue = wire::field(2, wire::kBytes);
  };
  static constexpr wire::Field kArguments = wire::field(1, wire::kBytes);
};
struct Operation {
  static constexpr wire::Field kType = wire::field(1, wire::kBytes);
  static constexpr wire::Field kInputs = wire::field(2, wire::kBytes);
  static constexpr wire::Field kOutputs = wire::field(3, wire::kBytes);
  static constexpr wire::Field kBlocks = wire::field(4, wire::kBytes);
  static constexpr wire::Field kAttributes = wire::field(5, wire::kBytes);
};
struct NamedValueType {
  static constexpr wire::Field kName = wire::field(1, wire::kBytes);
  static constexpr wire::Field kType = wire::field(2, wire::kBytes);
};
struct ValueType {
  static constexpr wire::Field kTensorType = wire::field(1, wire::kBytes);
  static constexpr wire::Field kListType = wire::field(2, wire::kBytes);
  static constexpr wire::Field kTupleType = wire::field(3, wire::kBytes);
  static constexpr wire::Field kDictionaryType = wire::field(4, wire::kBytes);
  static constexpr wire::Field kStateType = wire::field(5, wire::kBytes);
};
struct TensorType {
  static constexpr wire::Field kDataType = wire::field(1, wire::kVarint);
  static constexpr wire::Field kRank = wire::field(2, wire::kVarint);
  static constexpr wire::Field kDimensions = wire::field(3, wire::kBytes);
  static constexpr wire::Field kAttributes = wire::field(4, wire::kBytes);
};
struct TupleType {
  static constexpr wire::Field kTypes = wire::field(1, wire::kBytes);
};
struct ListType {
  static constexpr wire::Field kType = wire::field(1, wire::kBytes);
  static constexpr wire::Field kLength = wire::field(2, wire::kBytes);
};
struct DictionaryType {
  static constexpr wire::Field kKeyType = wire::field(1, wire::kBytes);
  static constexpr wire::Field kValueType = wire::field(2, wire::kBytes);
};
struct StateType {
  static constexpr wire::Field kWrappedType = wire::field(1, wire::kBytes);
};
struct Dimension {
  struct ConstantDimension {
    static constexpr wire::Field kSize = wire::field(1, wire::kVarint);
  };
  struct UnknownDimension {
    static constexpr wire::Field kVariadic = wire::field(1, wire::kVarint);
  };
  static constexpr wire::Field kConstant = wire::field(1, wire::kBytes);
  static constexpr wire::Field kUnknown = wire::field(2, wire::kBytes);
};
struct Value {
  struct ImmediateValue {
    static constexpr wire::Field kTensor = wire::field(1, wire::kBytes);
    static constexpr wire::Field kTuple = wire::field(2, wire::kBytes);
    static constexpr wire::Field kList = wire::field(3, wire::kBytes);
    static constexpr wire::Field kDictionary = wire::field(4, wire::kBytes);
  };
  struct BlobFileValue {
    static constexpr wire::Field kFileName = wire::field(1, wire::kBytes);
    static constexpr wire::Field kOffset = wire::field(2, wire::kVarint);
  };
  static constexpr wire::Field kDocString = wire::field(1, wire::kBytes);
  static constexpr wire::Field kType = wire::field(2, wire::kBytes);
  static constexpr wire::Field kImmediateValue = wire::field(3, wire::kBytes);
  static constexpr wire::Field kBlobFileValue = wire::field(5, wire::kBytes);
};
struct TensorValue {
  struct RepeatedFloats {
    static constexpr wire::Field kValues = wire::field(1, wire::kFixed32);
  };
  struct RepeatedDoubles {
    static constexpr wire::Field kValues = wire::field(1, wire::kFixed64);
  };
  struct RepeatedInts {
    static constexpr wire::Field kValues = wire::field(1, wire::kVarint);
  };
  struct RepeatedLongInts {
    static constexpr wire::Field kValues = wire::field(1, wire::kVarint);
  };
  struct RepeatedBools {
    static constexpr wire::Field kValues = wire::field(1, wire::kVarint);
  };
  struct RepeatedStrings {
    static constexpr wire::Field kValues = wire::field(1, wire::kBytes);
  };
  struct RepeatedBytes {
    static constexpr wire::Field kValues = wire::field(1, wire::kBytes);
  };
  static constexpr wire::Field kFloats = wire::field(1, wire::kBytes);
  static constexpr wire::Field kInts = wire::field(2, wire::kBytes);
  static constexpr wire::Field kBools = wire::field(3, wire::kBytes);
  static constexpr wire::Field kStrings = wire::field(4, wire::kBytes);
  static constexpr wire::Field kLongInts = wire::field(5, wire::kBytes);
  static constexpr wire::Field kDoubles = wire::field(6, wire::kBytes);
  static constexpr wire::Field kBytes = wire::field(7, wire::kBytes);
};
struct TupleValue {
  static constexpr wire::Field kValues = wire::field(1, wire::kBytes);
};
struct ListValue {
  static constexpr wire::Field kValues = wire::field(1, wire::kBytes);
};
struct DictionaryValue {
  struct KeyValuePair {
    static constexpr wire::Field kKey = wire::field(1, wire::kBytes);
    static constexpr wire::Field kValue = wire::field(2, wire::kBytes);
  };
  static constexpr wire::Field kValues = wire::field(1, wire::kBytes);
};

}  // namespace sardonyx::milspec

// Model.proto and FeatureTypes.proto
namespace sardonyx::spec {

struct FeatureDescription {
  static constexpr wire::Field kName = wire::field(1, wire::kBytes);
  static constexpr wire::Field kShortDescription = wire::field(2, wire::kBytes);
  static constexpr wire::Field kType = wire::field(3, wire::kBytes);
};
struct Metadata {
  static constexpr wire::Field kShortDescription = wire::field(1, wire::kBytes);
  static constexpr wire::Field kVersionString = wire::field(2, wire::kBytes);
  static constexpr wire::Field kAuthor = wire::field(3, wire::kBytes);
  static constexpr wire::Field kLicense = wire::field(4, wire::kBytes);
  static constexpr wire::Field kUserDefined = wire::field(100, wire::kBytes);
};
struct FunctionDescription {
  static constexpr wire::Field kName = wire::field(1, wire::kBytes);
  static constexpr wire::Field kInput = wire::field(2, wire::kBytes);
  static constexpr wire::Field kOutput = wire::field(3, wire::kBytes);
  static constexpr wire::Field kPredictedFeatureName = wire::field(4, wire::kBytes);
  static constexpr wire::Field kPredictedProbabilitiesName = wire::field(5, wire::kBytes);
  static constexpr wire::Field kState = wire::field(6, wire::kBytes);
};
struct ModelDescription {
  static constexpr wire::Field kInput = wire::field(1, wire::kBytes);
  static constexpr wire::Field kOutput = wire::field(10, wire::kBytes);
  static constexpr wire::Field kPredictedFeatureName = wire::field(11, wire::kBytes);
  static constexpr wire::Field kPredictedProbabilitiesName = wire::field(12, wire::kBytes);
  static constexpr wire::Field kState = wire::field(13, wire::kBytes);
  static constexpr wire::Field kFunctions = wire::field(20, wire::kBytes);
  static constexpr wire::Field kDefaultFunctionName = wire::field(21, wire::kBytes);
  static constexpr wire::Field kTrainingInput = wire::field(50, wire::kBytes);
  static constexpr wire::Field kMetadata = wire::field(100, wire::kBytes);
};
struct Model {
  static constexpr wire::Field kSpecificationVersion = wire::field(1, wire::kVarint);
  static constexpr wire::Field kDescription = wire::field(2, wire::kBytes);
  static constexpr wire::Field kIsUpdatable = wire::field(10, wire::kVarint);
  static constexpr wire::Field kPipelineClassifier = wire::field(200, wire::kBytes);
  static constexpr wire::Field kPipelineRegressor = wire::field(201, wire::kBytes);
  static constexpr wire::Field kPipeline = wire::field(202, wire::kBytes);
  static constexpr wire::Field kGlmRegressor = wire::field(300, wire::kBytes);
  static constexpr wire::Field kSupportVectorRegressor = wire::field(301, wire::kBytes);
  static constexpr wire::Field kTreeEnsembleRegressor = wire::field(302, wire::kBytes);
  static constexpr wire::Field kNeuralNetworkRegressor = wire::field(303, wire::kBytes);
  static constexpr wire::Field kBayesianProbitRegressor = wire::field(304, wire::kBytes);
  static constexpr wire::Field kGlmClassifier = wire::field(400, wire::kBytes);
  static constexpr wire::Field kSupportVectorClassifier = wire::field(401, wire::kBytes);
  static constexpr wire::Field kTreeEnsembleClassifier = wire::field(402, wire::kBytes);
  static constexpr wire::Field kNeuralNetworkClassifier = wire::field(403, wire::kBytes);
  static constexpr wire::Field kKNearestNeighborsClassifier = wire::field(404, wire::kBytes);
  static constexpr wire::Field kNeuralNetwork = wire::field(500, wire::kBytes);
  static constexpr wire::Field kItemSimilarityRecommender = wire::field(501, wire::kBytes);
  static constexpr wire::Field kMlProgram = wire::field(502, wire::kBytes);
  static constexpr wire::Field kCustomModel = wire::field(555, wire::kBytes);
  static constexpr wire::Field kLinkedModel = wire::field(556, wire::kBytes);
  static constexpr wire::Field kClassConfidenceThresholding = wire::field(560, wire::kBytes);
  static constexpr wire::Field kOneHotEncoder = wire::field(600, wire::kBytes);
  static constexpr wire::Field kImputer = wire::field(601, wire::kBytes);
  static constexpr wire::Field kFeatureVectorizer = wire::field(602, wire::kBytes);
  static constexpr wire::Field kDictVectorizer = wire::field(603, wire::kBytes);
  static constexpr wire::Field kScaler = wire::field(604, wire::kBytes);
  static constexpr wire::Field kCategoricalMapping = wire::field(606, wire::kBytes);
  static constexpr wire::Field kNormalizer = wire::field(607, wire::kBytes);
  static constexpr wire::Field kArrayFeatureExtractor = wire::field(609, wire::kBytes);
  static constexpr wire::Field kNonMaximumSuppression = wire::field(610, wire::kBytes);
  static constexpr wire::Field kIdentity = wire::field(900, wire::kBytes);
  static constexpr wire::Field kTextClassifier = wire::field(2000, wire::kBytes);
  static constexpr wire::Field kWordTagger = wire::field(2001, wire::kBytes);
  static constexpr wire::Field kVisionFeaturePrint = wire::field(2002, wire::kBytes);
  static constexpr wire::Field kSoundAnalysisPreprocessing = wire::field(2003, wire::kBytes);
  static constexpr wire::Field kGazetteer = wire::field(2004, wire::kBytes);
  static constexpr wire::Field kWordEmbedding = wire::field(2005, wire::kBytes);
  static constexpr wire::Field kAudioFeaturePrint = wire::field(2006, wire::kBytes);
  static constexpr wire::Field kSerializedModel = wire::field(3000, wire::kBytes);
};
struct SizeRange {
  static constexpr wire::Field kLowerBound = wire::field(1, wire::kVarint);
  static constexpr wire::Field kUpperBound = wire::field(2, wire::kVarint);
};
struct ImageFeatureType {
  struct ImageSize {
    static constexpr wire::Field kWidth = wire::field(1, wire::kVarint);
    static constexpr wire::Field kHeight = wire::field(2, wire::kVarint);
  };
  struct EnumeratedImageSizes {
    static constexpr wire::Field kSizes = wire::field(1, wire::kBytes);
  };
  struct ImageSizeRange {
    static constexpr wire::Field kWidthRange = wire::field(1, wire::kBytes);
    static constexpr wire::Field kHeightRange = wire::field(2, wire::kBytes);
  };
  static constexpr wire::Field kWidth = wire::field(1, wire::kVarint);
  static constexpr wire::Field kHeight = wire::field(2, wire::kVarint);
  static constexpr wire::Field kColorSpace = wire::field(3, wire::kVarint);
  static constexpr wire::Field kEnumeratedSizes = wire::field(21, wire::kBytes);
  static constexpr wire::Field kImageSizeRange = wire::field(31, wire::kBytes);
};
struct ArrayFeatureType {
  struct Shape {
    static constexpr wire::Field kShape = wire::field(1, wire::kVarint);
  };
  struct EnumeratedShapes {
    static constexpr wire::Field kShapes = wire::field(1, wire::kBytes);
  };
  struct ShapeRange {
    static constexpr wire::Field kSizeRanges = wire::field(1, wire::kBytes);
  };
  static constexpr wire::Field kShape = wire::field(1, wire::kVarint);
  static constexpr wire::Field kDataType = wire::field(2, wire::kVarint);
  static constexpr wire::Field kEnumeratedShapes = wire::field(21, wire::kBytes);
  static constexpr wire::Field kShapeRange = wire::field(31, wire::kBytes);
  static constexpr wire::Field kIntDefaultValue = wire::field(41, wire::kVarint);
  static constexpr wire::Field kFloatDefaultValue = wire::field(51, wire::kFixed32);
  static constexpr wire::Field kDoubleDefaultValue = wire::field(61, wire::kFixed64);
};
struct DictionaryFeatureType {
  static constexpr wire::Field kInt64KeyType = wire::field(1, wire::kBytes);
  static constexpr wire::Field kStringKeyType = wire::field(2, wire::kBytes);
};
struct SequenceFeatureType {
  static constexpr wire::Field kInt64Type = wire::field(1, wire::kBytes);
  static constexpr wire::Field kStringType = wire::field(3, wire::kBytes);
  static constexpr wire::Field kSizeRange = wire::field(101, wire::kBytes);
};
struct StateFeatureType {
  static constexpr wire::Field kArrayType = wire::field(1, wire::kBytes);
};
struct FeatureType {
  static constexpr wire::Field kInt64Type = wire::field(1, wire::kBytes);
  static constexpr wire::Field kDoubleType = wire::field(2, wire::kBytes);
  static constexpr wire::Field kStringType = wire::field(3, wire::kBytes);
  static constexpr wire::Field kImageType = wire::field(4, wire::kBytes);
  static constexpr wire::Field kMultiArrayType = wire::field(5, wire::kBytes);
  static constexpr wire::Field kDictionaryType = wire::field(6, wire::kBytes);
  static constexpr wire::Field kSequenceType = wire::field(7, wire::kBytes);
  static constexpr wire::Field kStateType = wire::field(8, wire::kBytes);
  static constexpr wire::Field kIsOptional = wire::field(1000, wire::kVarint);
};

}  // namespace sardonyx::spec
