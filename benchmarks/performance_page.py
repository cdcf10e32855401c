"""Writes docs/performance.md from what the benchmarks of serving kept: `python -m benchmarks.performance_page`."""

from collections.abc import Callable
from typing import Any

from benchmarks import (
    attend_stream,
    breakdown,
    generation,
    held,
    idle,
    kept,
    loop,
    map_parts,
    overload,
    precision,
    refusing,
    shed,
    waits,
    workers,
)
from benchmarks.process import ROOT
from benchmarks.serving import tables as serving
from benchmarks.serving.figures import Results
from benchmarks.tables import DISTURBED

PAGE = ROOT / "docs" / "performance.md"


def write_page() -> None:
    """Write the page from everything that was kept."""
    PAGE.write_text("\n".join(page()) + "\n", encoding="utf-8")


def _section(name: str, kind: type[Any], said: str, tables: Callable[[Any], list[str]]) -> list[str]:
    """Give the page's part on one benchmark, nothing where none of it was kept. said: with the machine left open."""
    machine, rows = kept.load(name, kind)
    return [*said.format(machine=machine).splitlines(), *tables(rows), ""] if rows else []


def page() -> list[str]:
    """All sections whose figures are there."""
    lines = HEADER.splitlines()
    if (file := kept.KEPT / "serving.json").exists():
        results = Results.load(file)
        said = SERVING.format(machine=results.machine, disturbed=DISTURBED, **results.settings)
        lines += [*said.splitlines(), *serving.tables(results), "### Bars", "", *serving.bars(results), ""]
    machine, rows = kept.load("idle", idle.Idle)
    if rows:
        lines += [*IDLE.format(machine=machine).splitlines(), *idle.tables(rows), "", *idle.bars(rows), ""]
    lines += _section("breakdown", breakdown.Cost, BREAKDOWN, breakdown.tables)
    lines += _section("map_parts", map_parts.Parts, MAP_PARTS, map_parts.tables)
    lines += _section("waits", waits.Waited, WAITS, waits.tables)
    machine, models = kept.load("held", held.Held)
    if models:
        lines += [*HELD.format(machine=machine).splitlines(), *held.tables(models), "", *held.bars(models), ""]
    machine, streamed = kept.load("attend_stream", attend_stream.Streamed)
    if streamed:
        said = STREAM.format(machine=machine)
        lines += [*said.splitlines(), *attend_stream.tables(streamed), "", *attend_stream.bars(streamed), ""]
    machine, written = kept.load("generation", generation.Generated)
    if written:
        said = GENERATION.format(machine=machine)
        lines += [*said.splitlines(), *generation.tables(written), "", *generation.bars(written), ""]
    lines += _section("precision", precision.Measured, PRECISION, precision.tables)
    found = overload.Results.load(file) if (file := kept.KEPT / "overload.json").exists() else None
    if found:
        said = OVERLOAD.format(machine=found.machine, **found.settings)
        lines += [*said.splitlines(), *overload.tables(found), "", *overload.bars(found), ""]
    lines += _section("shed", shed.Shed, SHED, shed.tables)
    machine, refused = kept.load("refusing", refusing.Refused)
    if refused:
        lines += [*REFUSING.format(machine=machine).splitlines(), *refusing.tables(refused), ""]
        lines += [*CEILINGS.splitlines(), *refusing.ceilings(refused, found), ""] if found else []
    lines += _section("workers", workers.Shared, WORKERS, workers.tables)
    machine, waited = kept.load("loop", loop.Waited)
    if waited:
        lines += [*LOOP.format(machine=machine).splitlines(), *loop.tables(waited), "", *loop.bars(waited), ""]
    return [*lines, *LIMITS.splitlines(), *GPU.splitlines()]


HEADER = """# Performance

Written by `python -m benchmarks.performance_page` from `benchmarks/results`. Do not edit. `make performance` measures
everything anew.

"""

SERVING = """## Serving beside the runtime and other servers

`python -m benchmarks.serving --keep`, on {machine}; medians of {rounds:g} rounds of {seconds:g} s a measurement, all by
turns.

The model is a Transformer encoder of 6 layers, 384 wide, with 12 heads and random weights; the input is token ids, the
answer two logits, and for Attend weights of every layer and head. Every server runs the same graph on ONNX Runtime.
*Runtime, the best way* drives it without a server, with no more rows under way than there are callers, in lanes ×
threads and in batches of those that wait, of the nearest lengths. Triton is its own core with the **python backend**,
tuned anew for each load: instances {{1, cores}} × delay {{0, 2 ms}}, the best counts. MLServer runs a row a run on
threads. One load generator, in a process of its own, serves all. Where it shares the servers' cores
(it had {load_cores:g} of its own), its processor time is given back in *requests a second*, what the server would have
answered with the whole machine, and its share is said. A
measurement beside which other programs took more than {disturbed:.0%} of the machine is made again, up to {again:g}
times; the generator runs with real-time priority where it may, as a caller elsewhere would.

"""

IDLE = """## One call on an idle server

`python -m benchmarks.idle --keep`, on {machine}: one call at a time, by turns with the runtime alone on every core.
Where the time goes is the answers' own account; *the rest* is transport, threads and wake-ups, and the caller.

"""

BREAKDOWN = """## What a call is made of

`python -m benchmarks.breakdown --keep`, on {machine}: ms of processor time a call, by what the threads of the server's
two processes do, beside a row of the runtime alone in batches of the size that the server made, and beside a gRPC
server in Python that only answers (*bare echo*). Lanes hold the runtime's own work, and what is framed and prepared
there (threads of its own prepare only where lanes are fewer than cores, as on a GPU). What the lanes take more than the
runtime is the price of the engine. The event loop that takes calls is gRPC's Python, limits, handing on and one line of
log; the one that answers is tasks, checks, and preparation of small requests. Nothing below the echo can be had from
gRPC for Python.

"""

MAP_PARTS = """### What is made of whole maps

`python -m benchmarks.map_parts --keep`, on {machine}: processor time of one core, without a server, of what the service
makes of every map of a row (six layers of twelve heads), and what the bars above leave for it.

"""

WAITS = """### What threads wait for

`python -m benchmarks.waits --keep`, on {machine}: shares of the time of each event loop, and of a lane, by the kernel's
account of which thread leaves a core, where in the program, and is woken. *The lock* is the interpreter's: one thread
of a process at a time runs Python. *A core*: the thread could go on, and another was on its core. Recording takes some
of the time.

"""

HELD = """## Memory of maps that nobody asks for

`python -m benchmarks.held --keep`, on {machine}: the encoder, and the same exported without maps.

"""

STREAM = """## Every map of long inputs

`python -m benchmarks.attend_stream --keep`, on {machine}: 12 layers of 12 heads, 384 wide, all maps through
`AttendStream` in float32. *Processor time* is the server's, its share of the transport included; the runtime alone
computes the same maps on every core and sends them nowhere. Memory is the most that the server's process has had.

"""

GENERATION = """## Generation

`python -m benchmarks.generation --keep`, on {machine}: sequences one after another and all at once, and the first token
of a newcomer while all the others write. *From a bare server*: as many messages, all at once, to the same caller from
a server of gRPC's asyncio that computes nothing.

`dates` is the demo's GRU; `gpt` is a Transformer's decoder alone, `transformer` one with an encoder, both with caches,
4 layers, 256 wide, of 8 heads, random weights and a vocabulary of 8,000, which put out 32 tokens for every text.

"""

OVERLOAD = """## Overload

`python -m benchmarks.overload --keep`, on {machine}: an open loop of {seconds:g} s at a multiple of the capacity that a
closed loop showed before it, with a deadline of 1 s a call; *goodput* is answers in time, and capacity is the mean of
what closed loops reached before and after. Documents of 300 words, pictures of 256 × 256 pixels, and generations of the
demo models. Capacity and goodput are with the generator's processor time given
back; its share, that of other programs, and how late it sent (*lag*, 99 %; *held* by
the server's window for requests) are said. Memory is looked at again
{after:g} s later. Cores are not kept awake here.

"""

SHED = """### Where the time goes under overload

`python -m benchmarks.shed --keep`, on {machine}: the same calls, and the cores that the server's threads and the
generator take. What is asked beyond what can be answered is received, looked at and refused by the process that takes
calls (`docs/decisions/0026-a-process-takes-calls.md`), or received and cancelled by gRPC's core. The more there is of
it, the less of the machine lanes get; 6 to 20 % of it is left over up to twice the capacity, while threads wait for a
core that another has (*What threads wait for*).

"""

REFUSING = """### What refusing costs at the least

`python -m benchmarks.refusing --keep`, on {machine}: the same calls to a server of gRPC's asyncio that does nothing but
refuse them, unread, with the status and the RetryInfo of a full server. It has the machine to itself, but for the
generator.

"""

CEILINGS = """So much goodput could be had of the capacity if everything beyond it were refused at that price, nothing
else were lost, and every core were always at work; the event loop, which refuses, has one core at the most. What was
reached stands beside it; it can be more where gRPC's core cancels calls, which costs less than to refuse them.

"""

WORKERS = """## One process, or one for each core

`python -m benchmarks.workers --keep`, on {machine}: closed loops, by turns, on one process that may use one core, on
one that may use all, and on as many processes as cores (`--workers`). The generator takes its share of the machine
beside them. *CPU* is the server's a call.

A process of Python runs one thread of its own code at a time. Where that is much of a call, its threads spend their
time in handing the lock from core to core, dozens of times a call, and in waking cores that sleep: a virtual
machine gives those back to its host, and *awake* is the same with a process of the lowest priority on each that keeps
it from that (`benchmarks/awake.py`). A call then costs more on two cores than on one, and a process for each core
answers most. Where the runtime has nearly all of the time, processes win little, and each has its models in memory. A
caller with one connection has one process.

"""

LOOP = """## What a call waits for

`python -m benchmarks.loop --keep`, on {machine}: health is asked for every 5 ms while four callers send the worst that
a request may ask.

"""

PRECISION = """## In int8

`python -m benchmarks.precision --keep`, on {machine}; medians of runs by turns in the runtime alone, one thread, one
row at a time.

The encoder above in float32, as `limelight export --precision int8` makes it, and as ONNX Runtime's own
`quantize_dynamic` does. *Alone and batched*: the largest difference of a logit between a row in a padded batch of eight
and the same row alone; *from float32*: of a row alone, in logits that are apart by about 1
(`docs/decisions/0013-int8-activations-are-scaled-per-row.md`).

"""

LIMITS = """## Where the limits lie

What is missed above comes to this; what shows it is named.

- **Python's part of a call** (bars of Predict and Attend at 32 tokens, of processor time, of one call at a time, of a
  model of 50 µs). The two event loops, gRPC's own Python above all, take three to five times what a server takes that
  only echoes (*What a call is made of*), and the echo alone is 4 to 5 % of a row of 32 tokens in the runtime, where 5 %
  is all that 0.95 of it leaves. Triton, which takes calls and makes batches without Python, is within 6 % of the
  runtime's own figure there. To hand a call on to the process that answers, and its answer back, takes 0.3 ms of an
  idle server (`--no-apart` does without). What could be taken out was: messages are framed around the runtime's
  buffers, small requests are prepared where they arrive, calls are taken in several at a time
  (`docs/decisions/0025-calls-are-taken-in-together.md`), and a loop wakes two to three times a call. What is left is
  slow where it stands: to frame an answer takes 21 µs over and over, and 93 after a run of the model, whose weights
  have passed through the caches.
- **One lock, and cores that are not looked for** (bars of the model of 50 µs, and of generations). A process of Python
  runs one thread of its own code at a time. Two processes have two locks
  (`docs/decisions/0026-a-process-takes-calls.md`), for which nobody waits more than a tenth of the time any more, but
  for lanes of a model that takes 50 µs. What is left is waiting for cores: on a busy machine the kernel looks for no
  free one for a thread that is woken, and one is idle while two threads share another (*What threads wait for*). Lower
  priority for lanes, fewer lanes, lanes on cores of their own, longer slices of time for them, a longer interval
  between changes, and what takes less than 2 ms on the event loop: within noise, or good for one load and bad for
  another; loops with real-time priority win a tenth, which a container may not. `--workers` goes around it.
- **Rows that come one by one** (bars of 8 at a time, of mixed lengths, of p99). *The best way* of the runtime has its
  next batch at hand when one is done: four of eight rows, eight of 32. A caller sends the next row once it has an
  answer, so that the server has two or three of eight to put together (*rows a batch*). Batches of fewer rows cost more
  a row, and to wait for more would cost those that are here. At 70 % of the load they are smaller still, and each call
  wakes both loops by itself: it takes a third more processor time than at full load, and more than four fifths of the
  machine are at work. One batch after another on every core, as Triton is best tuned for 32 tokens, has four rows of
  eight, but its threads wait for each other whenever a loop has the core of one: 8.7 ms of processor time a call
  instead of 7.4 at 8 at a time, and at 200 a second 41 to 51 ms (p50) instead of 24 to 30.
- **What is made of every map is made of millions of weights** (bars of top-k and head mean). 72 maps of 128 tokens are
  1.2 million; to sort their rows takes longer than the bar leaves for all of top-k (*What is made of whole maps*), and
  the runtime's own TopK takes twice as long as NumPy. To put out maps takes the runtime itself 2 to 3 % more than the
  prediction, which is all that the bars leave; the mean of heads adds 1 %, and what every Attend has beside it, labels
  and maps to frame, the rest.
- **Maps are bytes** (bars of all maps, of float16, of streams, and of the longest wait). What an answer of 5 MB costs
  beyond the prediction is a copy into the message, which lanes write to the memory that both processes have, one out of
  it, since gRPC takes bytes and nothing else, gRPC's own copy of those, pages for them, and the socket; without the
  second and third and the event loop's share it would be at the runtime's own figure. Fresh pages were 15 % of it; what
  was freed is used again now (`service/memory.py`). gRPC makes its copy on the event loop and lets no other thread go
  on meanwhile: the longest waits of *What a call waits for* are four callers who ask for 30 to 60 MB each, over and
  over. Their answers take turns, and between two of them the loop gets as much time as the copy took, so that nobody
  waits for several. The copy out of the memory that both processes share is a thread's, which needs no lock meanwhile;
  what is left is pages that were never used, which the kernel hands out while others of the process wait for some. Such
  maps are better asked for by `AttendStream`, which sends them in pieces (*Every map of long inputs*);
  `max_response_bytes` keeps them out.
- **Cycles are looked for on the event loop** (`docs/decisions/0021-cycles-are-collected-on-the-event-loop.md`), in
  passes over all that lives and was made since the models were loaded. While 256 documents of 18,000 characters are
  prepared that is one object of the tokenizer's for each line, and none of ours: 19 ms at most. With seven of ours a
  line it was 146.
- **Refusals cost as well** (bars of goodput, and of refused calls). A call that is refused as it would be late takes
  the process that takes calls 0.26 to 0.39 ms, most of it in gRPC's compiled part; a server of gRPC's asyncio whose
  handlers do nothing but refuse takes 0.2 to 0.4 ms, which leaves 0.89 to 0.95 of the capacity at twice the load and no
  more (*What refusing costs at the least*). Beside that, lanes take 6 % more of a core for the same documents (a row
  1.75 and 1.85 ms, to prepare it 1.62 and 1.73): three processes share the caches of two cores. From three times on,
  calls come faster than they can be refused, wait in line, and gRPC's core cancels some of them, without a time to come
  back. In one process (`--no-apart`) that is so from the start, for half to two thirds of all calls at twice the
  capacity, whatever was tried (`docs/decisions/0025-calls-are-taken-in-together.md`,
  `docs/decisions/0026-a-process-takes-calls.md`). Whoever expects ten times the capacity has a proxy that counts, in
  front of it.
- **Python gives memory back in pieces** (bar of memory afterwards). After a flood as many bytes live in the process
  that takes calls as before it (25.1 MB), but in 36 pieces of 1 MB instead of 26 (`sys._debugmallocstats`): a piece is
  given back when nothing lives in it, and the places for the next calls, eight of each method, were made during the
  flood. Another flood adds none.
- **A step of a generation is short** (bars of generation). Where models are small, as the demo's, the event loops,
  which send each token, take more than the lanes do with the runtime's part in it (*Where the time goes under
  overload*), and that does not shrink where steps are shared. The same caller takes several times as many messages from
  a server that computes nothing (*Generation*). A newcomer waits for the step that runs, has its prompt read, and
  shares the next step with 15 others, which takes longer than one alone; its first token then waits for those of the
  others, and turns of three event loops.

"""

GPU = """## On a GPU

`python -m benchmarks.gpu` proves the CUDA path on a machine that has a GPU, and prints parity, throughput and the cost
of maps of every bundle, with and without each thing that is done for one. None are here: it has not run on one."""


if __name__ == "__main__":
    write_page()
