"""How CUDA is used: what is set for the provider, in one place."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cuda:
    """What may be chosen of a GPU.

    device: its number. memory: bytes that the sessions of one graph may hold on it; 0 for no limit.
    tf32: float32 products rounded to 10 bits, which is past what the tolerances of bundles allow.
    graphs: record the runs of small batches, and play them back.
    """

    device: int = 0
    memory: int = 0
    tf32: bool = False
    graphs: bool = True

    def options(self) -> dict[str, str]:
        """Give the provider's options as ONNX Runtime takes them.

        Convolutions are chosen by rule: trying every algorithm, which is the default, is done again for each shape, and
        shapes vary. Under a limit the arena takes what it needs, where it would double what it has.
        """
        limit = {"gpu_mem_limit": str(self.memory), "arena_extend_strategy": "kSameAsRequested"} if self.memory else {}
        return {
            "device_id": str(self.device),
            "use_tf32": str(int(self.tf32)),
            "cudnn_conv_algo_search": "HEURISTIC",
            **limit,
        }


DEFAULT = Cuda()
