"""Train a small BERT that tells good from bad in sentences of which every other has a "not", and save its checkpoint.

    python examples/negation.py build/negation

The sentences are made here, so that what decides the answer is known. Takes about ten seconds of one processor.
"""

import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
GOOD, BAD = ("good", "funny", "clever", "moving", "great"), ("bad", "dull", "silly", "boring", "awful")
NOUNS, VERBS, HOW = ("film", "plot", "story", "cast", "music"), ("is", "was", "seemed"), ("", "very", "really", "so")
BESIDE = ("", "in the end", "as they say", "to be honest", "this time")


def sentence(chance: random.Random) -> tuple[str, int]:
    """Make a sentence and its class: 1 for good."""
    is_good, is_negated = chance.random() < 0.5, chance.random() < 0.5
    words = ["the", chance.choice(NOUNS), chance.choice(VERBS), "not" if is_negated else "", chance.choice(HOW)]
    words += [chance.choice(GOOD if is_good else BAD), chance.choice(BESIDE)]
    return " ".join(filter(None, words)), int(is_good != is_negated)


def main(folder: Path, steps: int = 300) -> None:
    """Train and save."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # threads cost a small model more than they save
    chance = random.Random(0)
    words = sorted({word for _ in range(2000) for word in sentence(chance)[0].split()})
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
    tokenizer.enable_padding()
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    labels = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **sizes, **labels)
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(steps):
        texts, classes = zip(*(sentence(chance) for _ in range(32)), strict=True)
        read = tokenizer.encode_batch(list(texts))
        ids, mask = (torch.tensor([getattr(each, name) for each in read]) for name in ("ids", "attention_mask"))
        answer = model(input_ids=ids, attention_mask=mask, labels=torch.tensor(classes))
        optimizer.zero_grad()
        answer.loss.backward()
        optimizer.step()
        if step % 50 == 49:
            right = (answer.logits.argmax(-1) == torch.tensor(classes)).float().mean()
            print(f"step {step + 1}: loss {answer.loss.item():.3f}, right {right:.0%}")
    model.save_pretrained(folder)
    roles = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles).save_pretrained(folder)
    print(f"limelight import hf {folder} --repository build/imported")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
