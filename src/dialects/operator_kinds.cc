#include "dialects/operator_kinds.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sardonyx {
namespace {

struct Family {
  std::string_view kind;
  std::string_view names;  // of all dialects, each between spaces
};

// What traits do not tell.
constexpr std::array kFamilies{
    Family{"matrix",
           " MatMul Gemm Einsum MatMulInteger QLinearMatMul MatMulNBits matmul linear einsum dot_general ragged_dot "
           "Attention scaled_dot_product_attention LSTM GRU RNN lstm gru rnn "},
    Family{"convolution",
           " Conv ConvTranspose ConvInteger QLinearConv DeformConv conv conv_transpose conv_general_dilated "
           "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool max_pool avg_pool l2_pool reduce_window "
           "reduce_window_max reduce_window_sum reduce_window_min select_and_scatter_add "},
    Family{"normalization",
           " BatchNormalization LayerNormalization InstanceNormalization GroupNormalization RMSNormalization LRN "
           "LpNormalization MeanVarianceNormalization Softmax LogSoftmax batch_norm layer_norm instance_norm l2_norm "
           "local_response_norm softmax "},
    Family{"reduction",
           " ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
           "ReduceSumSquare ArgMax ArgMin CumSum TopK reduce_sum reduce_mean reduce_max reduce_min reduce_prod "
           "reduce_argmax reduce_argmin reduce_l1_norm reduce_l2_norm reduce_log_sum reduce_log_sum_exp "
           "reduce_sum_square cumsum topk argmax argmin reduce_and reduce_or cummax cummin cumprod sort argsort "},
    Family{
        "movement",
        " Reshape Transpose Concat Split Slice Gather GatherND GatherElements Scatter ScatterND ScatterElements Squeeze "
        "Unsqueeze Expand Tile Pad Flatten Identity Shape Size Cast CastLike DepthToSpace SpaceToDepth Resize ReverseSequence "
        "Trilu OneHot Range Compress NonZero ConstantOfShape EyeLike BitCast CenterCropPad TensorScatter SequenceAt "
        "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence ConcatFromSequence "
        "Optional "
        "OptionalGetElement OptionalHasElement reshape transpose concat split slice_by_index slice_by_size gather gather_nd "
        "gather_along_axis scatter scatter_nd squeeze expand_dims tile pad stack identity shape cast copy "
        "broadcast_in_dim slice dynamic_slice dynamic_update_slice concatenate rev iota convert_element_type "
        "fill_like non_zero one_hot slice_update crop sliding_windows make_list list_read list_write list_gather list_scatter "
        "list_length read_state write_state coreml_update_state upsample_nearest_neighbor resize_nearest_neighbor "
        "pixel_shuffle space_to_depth depth_to_space reverse band_part fill range_1d bitcast_convert_type "},
    Family{"control",
           " If Loop Scan cond while while_loop scan jit pjit closed_call custom_jvp_call custom_vjp_call remat checkpoint "},
};

}  // namespace

std::string_view kind_of(const Op& op) {
  if (op.domain.empty() && !op.name.empty() && op.name.front() != ' ') {
    for (const Family& f : kFamilies) {
      for (size_t at = f.names.find(op.name); at != std::string_view::npos; at = f.names.find(op.name, at + 1)) {
        if (f.names[at - 1] == ' ' && f.names[at + op.name.size()] == ' ') return f.kind;
      }
    }
  }
  if (op.has(Trait::kSubgraphs)) return "control";
  if (op.has(Trait::kConstant)) return "constant";
  if (op.has(Trait::kRandom)) return "random";
  if (op.has(Trait::kElementwise)) return "elementwise";
  return "other";
}

}  // namespace sardonyx
