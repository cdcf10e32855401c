"""Limelight, ONNX Runtime alone, Triton and MLServer, by turns in one run.

    make peers                                # once: the peers, in virtual environments of their own
    python -m benchmarks.serving              # everything, about 12 minutes on two cores
    python -m benchmarks.serving --keep       # and writes tools/benchmarks/results/serving.json.xz
    python -m benchmarks.serving --seconds 0.7 --rounds 1 --sections predict attend

A run that was cut short goes on where it stopped with --resume.
"""

import argparse
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.process import set_aside
from benchmarks.records import ROOT, origin, place
from benchmarks.serving.comparison import Comparison
from benchmarks.serving.figures import Medians, Results
from benchmarks.tables import of_rows

SECTIONS = ("predict", "attend", "open", "tiny", "connections")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement; twice that in open loops")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--again", type=int, default=2, help="times that a disturbed measurement is made again")
    parser.add_argument("--load-cores", type=int, default=0, help="cores for the generator alone; 0: it shares them")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--repository", type=Path, default=ROOT / "build" / "benchmarks")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was cut short")
    options = parser.parse_args()
    from benchmarks.encoder import make_repository  # brings PyTorch, which nothing else here needs

    graph = make_repository(options.repository) / "model.onnx"
    file = place("serving", keep=options.keep)
    load_cores = set_aside(options.load_cores)
    results = Results(
        **origin(),
        settings={
            "seconds": options.seconds,
            "rounds": options.rounds,
            "again": options.again,
            "load_cores": options.load_cores,
        },
    )
    if options.resume and file.exists():
        results = Results.load(file)
    with ExitStack() as stack:
        contest = Comparison(stack, options.repository, graph, results, load_cores)
        for name, why in results.absent.items():
            print(f"{name} is absent: {why}")
        for number in range(options.rounds):
            for section in options.sections:
                part = f"{number} {section}"
                if part in results.done:
                    continue
                begin = time.monotonic()
                results.rows += contest.sections()[section]()
                results.done.append(part)
                results.save(file)
                print(f"round {number + 1}, {section}: {time.monotonic() - begin:.0f} s", flush=True)
    print("\n".join(["", *of_rows(Medians(results.rows).all)]))


if __name__ == "__main__":
    main()
