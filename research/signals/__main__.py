"""Training signals of attention at work, each beside the same model without it.

    python -m research.signals                     # what is missing of the study, then the tables of the page
    python -m research.signals --only table        # the tables alone

Results are appended to research/records/signals.jsonl.xz and never measured twice; docs/signals.md is written from
them. The data sets are found at LIMELIGHT_DATA. All of it takes about ten minutes of one core.
"""

import argparse
import time

import torch

from research.mechanisms.results import Results
from research.signals.page import FILE, STUDIES, pages

SEEDS = (0, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("train", "table"), default="", help="one of the two steps")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = Results(FILE)
    if arguments.only in ("", "train"):
        for seed in SEEDS:
            for study in STUDIES:
                for variant in study.variants:
                    if results.known("run", study.key(variant), seed):
                        continue
                    began = time.process_time()
                    found = study.run(variant, seed)
                    spent = round(time.process_time() - began, 1)
                    rounded = {name: round(value, 5) for name, value in found.items()}
                    results.add("run", study.key(variant), seed, cpu_seconds=spent, **rounded, torch=torch.__version__)
                    print(f"{study.key(variant)} · seed {seed} · {spent} s", flush=True)
        results.pack()
    if arguments.only in ("", "table"):
        for page, text in pages(results).items():
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
