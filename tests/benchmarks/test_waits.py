"""What threads wait for is told from the kernel's account of switches and wakings."""

import pytest

from benchmarks import waits

LANE, LOOP = 41, 42


def switch(at: float, left: int, state: str, follows: int, *stack: str) -> str:
    """One switch as `perf script` writes it."""
    head = f"python    {left} {at:.6f}: sched:sched_switch: prev_comm=py thon prev_pid={left} prev_prio=120 "
    head += f"prev_state={state} ==> next_comm=swapper/0 next_pid={follows} next_prio=120\n"
    return head + "".join(f"\t     {place:x} {name}\n" for place, name in enumerate(stack, 4096)) + "\n"


def waking(at: float, woken: int) -> str:
    """One waking, by somebody else."""
    return (
        f"other thread 7 {at:.6f}: sched:sched_waking: comm=python pid={woken} prio=120 target_cpu=001\n\t  1f try\n\n"
    )


def test_time_is_work_or_one_of_three_kinds_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "cores", lambda: 2)
    trace = (
        switch(1.0, 0, "R", LANE)  # works 2 s
        + switch(3.0, LANE, "S", LOOP, "schedule", "futex_wait", "take_gil", "PyEval_RestoreThread")  # the lock 1 s
        + waking(4.0, LANE)  # a core 0.5 s
        + switch(4.5, LOOP, "R+", LANE, "take_gil")  # of the loop: preempted, wherever it was
        + waking(4.6, LANE)  # which works already
        + switch(5.0, LANE, "S", 0, "schedule", "epoll_wait")  # nothing to do 6 s
        + switch(11.0, 9, "S", 0)
    )
    found, idle = waits.shares(trace.splitlines(keepends=True), [LANE, LOOP])
    assert list(found[LANE].values()) == pytest.approx([0.25, 0.1, 0.05, 0.6])
    assert list(found[LOOP].values()) == pytest.approx([1.5 / 8, 0, 6.5 / 8, 0])
    assert idle == pytest.approx(2 - 4 / 10)


def test_a_trace_of_nothing_has_no_threads() -> None:
    assert waits.shares([], [LANE]) == ({}, 0.0)
