"""ONNX operators that a bundle may use: deterministic, without side effects."""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from limelight_bundle.checks.onnx_traversal import check_functions, nodes_of, tensors_of
from limelight_bundle.errors import BundleError

if TYPE_CHECKING:
    from onnx import ModelProto

STANDARD = frozenset(
    """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
    BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike CausalConvWithState Ceil
    Celu CenterCropPad Clip Col2Im Compress Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger
    ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear Det Div Dropout
    DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND
    Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization
    HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual LinearAttention Log LogSoftmax Loop LpNormalization LpPool MatMul
    MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Neg
    NegativeLogLikelihoodLoss NonZero Not OneHot Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear
    RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round
    STFT Scan ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
    SequenceLength SequenceMap Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus
    Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze Sub Sum SwiGLU Swish Tan Tanh TensorScatter
    ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Where Xor
    """.split()
)
CONTRIB = frozenset(
    """
    MultiHeadAttention GroupQueryAttention Attention SkipLayerNormalization SkipSimplifiedLayerNormalization
    EmbedLayerNormalization BiasGelu FastGelu QuickGelu Gelu BiasAdd BiasSoftmax FusedMatMul FusedGemm FusedConv
    LayerNormalization SimplifiedLayerNormalization RotaryEmbedding DynamicQuantizeMatMul MatMulIntegerToFloat
    MatMulNBits QAttention QLinearAdd QLinearMul
    """.split()
)
_DOMAINS = {"": STANDARD, "ai.onnx": STANDARD, "com.microsoft": CONTRIB}


def check_graph(path: Path, name: str, files: frozenset[str], optional: Iterable[str] = ()) -> frozenset[str]:
    """Check a graph's operators, weight files and optional inputs, and return the weight files.

    Args:
        path: path of the .onnx file.
        name: name of the file in the bundle.
        files: every file that the bundle lists.
        optional: names of inputs that must be optional.
    Raises:
        BundleError: the graph cannot be read, uses an operator that is not allowed (or ScatterND with a reduction) or a
            file outside the bundle, lacks an optional input, or has invalid functions.
    """
    if not name.endswith(".onnx"):  # ONNX Runtime reads other formats by other suffixes
        raise BundleError(f"the graph {name!r} must have a file name that ends with .onnx")
    import onnx  # imported here, since only this check needs it

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # the parser raises its own C++ errors
        raise BundleError(f"{name} is not a readable ONNX graph") from error
    check_functions(model, name)
    local = {(function.domain, function.name) for function in model.functions}
    for node in nodes_of(model):
        # On several threads ONNX Runtime loses parts of sums over repeated indices (onnxruntime#18048).
        if node.op_type == "ScatterND" and any(
            each.name == "reduction" and each.s != b"none" for each in node.attribute
        ):
            raise BundleError(f"{name} uses ScatterND with a reduction, which is unsafe; ScatterElements does the same")
        if node.op_type not in _DOMAINS.get(node.domain, frozenset()) and (node.domain, node.op_type) not in local:
            raise BundleError(
                f"{name} uses the operator {node.domain or 'ai.onnx'}.{node.op_type}, which is not allowed"
            )
    defaults = {each.name for each in model.graph.initializer}
    optional_inputs = {each.name for each in model.graph.input} & defaults
    for each in optional:
        if each not in optional_inputs:
            raise BundleError(f"{name} has no optional input {each!r}")
    # ONNX Runtime resolves locations relative to the graph.
    weights = {str(PurePosixPath(name).parent / location) for location in _external_files(model)}
    if not weights <= files:
        raise BundleError(f"{name} reads weights from a file that the bundle does not list")
    return frozenset(weights)


def _external_files(model: "ModelProto") -> Iterator[str]:
    for tensor in tensors_of(model):
        yield from (entry.value for entry in tensor.external_data if entry.key == "location")
