"""The small graphs that serving runs beside those of models, and the script that writes them: `make graphs`.

Serving imports no onnx, so the graphs are files of its package.
"""

from pathlib import Path

import onnx.parser

from limelight_service.engine import graphs

FOLDER = Path(graphs.__file__).parent
TYPES = ("float", "double", "float16", "bool", "int8", "uint8", "int16", "int32", "int64")
_TAKE = """
    f = Gather<axis = 0>(x, i)
    g = Gather<axis = 1>(f, j)
    h = Gather<axis = 2>(g, m)
"""
_INDICES = "int64[p] i, int64[q] j, int64[r] m, int64[s] k"

TEXTS = {
    # Doubles a number: proves that a provider works.
    "probe": "probe (float[1] x) => (float[1] y) { y = Add(x, x) }",
    # Rounds to float16.
    "half": "half (float[n] x) => (float16[n] y) { y = Cast<to = 10>(x) }",
    # Attention weights of projected queries a [h, q, d] and keys b [h, k, d], with a bias c that broadcasts; a query
    # whose bias masks every key gets zeros.
    "weights": """
weights (float[h, q, d] a, float[h, k, d] b, float[i, j, l] c) => (float[h, q, k] w) {
    t = Transpose<perm = [0, 2, 1]>(b)
    s = MatMul(a, t)
    u = Add(s, c)
    v = Softmax<axis = -1>(u)
    z = Constant<value_float = 0.0>()
    e = Constant<value = int64[1] {-1}>()
    m = ReduceMax<keepdims = 1>(c, e)
    n = Equal(m, z)
    o = Cast<to = 1>(n)
    w = Mul(v, o)
}""",
    # Takes indices along each axis of a map [batch, head, query, key].
    "take": f"take (float[a, b, c, d] x, {_INDICES}) => (float[p, q, r, s] y) {{{_TAKE} y = Gather<axis = 3>(h, k) }}",
    "take-half": f"""
take (float[a, b, c, d] x, {_INDICES}) => (float16[p, q, r, s] y) {{{_TAKE}
    w = Gather<axis = 3>(h, k)
    y = Cast<to = 10>(w)
}}""",
    # Takes rows, and replaces parts, of an array of any shape.
    **{f"gather-{each}": f"gather ({each}[] x, int64[] i) => ({each}[] y) {{ y = Gather(x, i) }}" for each in TYPES},
    **{
        f"scatter-{each}": f"scatter ({each}[] x, int64[] i, {each}[] u) => ({each}[] y) {{ y = ScatterND(x, i, u) }}"
        for each in TYPES
    },
}


def written(name: str) -> bytes:
    """Make a graph of its text."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 20]> {TEXTS[name]}')
    data: bytes = model.SerializeToString(deterministic=True)
    return data


if __name__ == "__main__":
    for path in FOLDER.glob("*.onnx"):
        path.unlink()
    for each in TEXTS:
        (FOLDER / f"{each}.onnx").write_bytes(written(each))
