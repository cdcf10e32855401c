"""A sentence encoder as most people serve one: transformers behind FastAPI, `uvicorn` with a process a core.

    DIR=checkpoint ATTENTION=eager python -m uvicorn benchmarks.peers.transformers_app:app --workers 2 --port PORT

THREADS are those of torch in each process; 1 where it is not set. FastAPI and uvicorn are installed by `make peers`,
into build/peers-fastapi.
"""

import os

import torch
from fastapi import FastAPI  # type: ignore[import-not-found]
from transformers import AutoModel, AutoTokenizer

torch.set_num_threads(int(os.environ.get("THREADS", "1")))
_FOLDER, _ATTENTION = os.environ["DIR"], os.environ["ATTENTION"]
_TOKENIZER = AutoTokenizer.from_pretrained(_FOLDER)
_MODEL = AutoModel.from_pretrained(_FOLDER, attn_implementation=_ATTENTION).eval()

app = FastAPI()


@app.post("/embed")  # type: ignore[untyped-decorator]
def embed(request: dict[str, str]) -> dict[str, list[float]]:
    """Answer a text with its vector, and with the first row of the last layer's first head where weights are there."""
    encoded = _TOKENIZER(request["text"], return_tensors="pt", truncation=True)
    with torch.inference_mode():
        answer = _MODEL(**encoded, output_attentions=_ATTENTION == "eager")
    mask = encoded["attention_mask"].unsqueeze(-1)
    vector = (answer.last_hidden_state * mask).sum(1) / mask.sum(1)
    found = {"vector": torch.nn.functional.normalize(vector, dim=-1)[0].tolist()}
    return found | ({"row": answer.attentions[-1][0, 0, 0].tolist()} if _ATTENTION == "eager" else {})
