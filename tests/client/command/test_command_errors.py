"""Every mistake is one line and an exit status; leaving is quiet."""

import re
import signal
import subprocess
import sys
import time

import grpc
import pytest

from tests.client.command.people import COMMAND, HEARS_CTRL_C, Run
from tests.kit.forwarder import Forwarder


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["predict", "nope", "x"], 1, "limelight: NOT_FOUND: there is no model 'nope'; there are: asked, broken, .*"),
        (["predict", "tiny", "x", "--version", "9"], 1, "limelight: NOT_FOUND: tiny has no version 9; there are: 1"),
        (
            ["attend", "tiny", "x", "--map", "no"],
            1,
            r"limelight: INVALID_ARGUMENT: attention.* matches no map; .*",
        ),
        (["predict", "coming", "x"], 1, "limelight: model 'coming' is still loading; try again soon"),
        (["attend", "broken", "x"], 1, "limelight: model 'broken' failed to load: .*model.onnx is not .*"),
        (["generate", "tiny", "x"], 1, "limelight: FAILED_PRECONDITION: tiny does not generate; .*"),
        (["predict", "tiny"], 2, r"limelight: nothing to send: model 'tiny' takes text \(text\)"),
        (["predict", "tiny", "two", "words"], 2, "limelight: 'words' is one value too many .*"),
        (["predict", "tiny", "-i", "txet=a"], 2, r"limelight: model 'tiny' has no input 'txet'; .*mean 'text'\?"),
        (["predict", "tiny", "-i", "text"], 2, "limelight: --input takes NAME=VALUE, not 'text'"),
        (["predict", "tiny", "--image", "a.png"], 2, "limelight: model 'tiny' has no image input; .*"),
        (["predict", "tiny", "--example", "3"], 2, "limelight: model 'tiny' has 3 examples, from 0"),
        (["predict", "tiny", "@/no/such/file"], 1, "limelight: /no/such/file: No such file or directory"),
        (["predict", "paper", __file__], 2, "limelight: '.*' is a file: @.* sends its content .*"),
        (["predict", "tiny", __file__], 2, "limelight: '.*' is a file: @.* sends its content .*"),
        (["predict", "pair", "It rains.", __file__], 2, "limelight: '.*' is a file; input 'pair' takes two texts: .*"),
        (["attend", "tiny", "x", "--png", "a.jpg"], 2, "limelight: --png writes PNG files, .* not 'a.jpg'"),
        (["predict", "glance", "/no/such.png"], 1, "limelight: /no/such.png: No such file or directory"),
        (["attend", "tiny", "x", "--png", "/dev/null/a.png"], 1, "limelight: /dev/null: (File exists|Not a dir.*)"),
        (["attend", "tiny", "x", "--group", "0:3"], 2, "limelight: a group is NAME=PLACE, not '0:3'"),
        (["attend", "tiny", "x", "--group", "a=0-3"], 2, "limelight: '0-3' is not a valid PLACE of a group: .*"),
        (["generate", "tiny", "x", "--target-text", "y"], 2, "limelight: model 'tiny' does not support .*output"),
        (["generate", "echo", "x", "--system", "y"], 2, "limelight: --system needs --chat"),
        (["generate", "echo", "x", "--chat", "z"], 1, "limelight: no chat format 'z'; there are chatml, .*"),
        (["generate", "echo", "a <|im_end|>", "--chat", "chatml"], 1, "limelight: .*content holds '<.im_end.>', .*"),
        (["attend", "pair", "x", "y", "--chat", "chatml"], 2, "limelight: --chat: model 'pair' does not take one text"),
        *(
            ([name, model, "x", "--mask-head", f"{shown}:0"], 1, rf"limelight: .*interventions\[0\].* to {shown}, .*")
            for name, model, shown in (
                ("predict", "tiny", "encoder.0.self"),
                ("attend", "tiny", "encoder.0.self"),
                ("generate", "echo", "decoder.0.cross"),
            )
        ),
        (["predict", "tiny", "x", "--uniform", "encoder.0.self"], 1, r"limelight: .*interventions\[0\].uniform .*"),
        (["predict", "tiny", "x", "--mask-head", "self"], 2, "limelight: --mask-head takes MAP:HEAD, .*"),
        (["predict", "tiny", "x", "--look-away", "4:7"], 2, "limelight: --look-away takes MAP=PLACE, .*"),
        (["predict", "tiny", "x", "--seed", str(2**70)], 1, "limelight: a seed is from 0 to .*"),
        (["bench", "tiny", "--seconds", "1", "-n", "2"], 2, "limelight: give either --seconds or --requests"),
        (["bench", "nope", "x"], 1, "limelight: NOT_FOUND: .*"),
        (["frobnicate"], 2, r"limelight: No such command 'frobnicate' \(see 'limelight --help'\)"),
        (["predict", "--frobnicate"], 2, r"limelight: No such option: --frobnicate \(see 'limelight predict --help'\)"),
        (["attend", "tiny", "x", "--topk", "1"], 2, r"limelight: .*mean '--top-k'\? \(see 'limelight attend --help'\)"),
        (["predict"], 2, r"limelight: Missing argument 'MODEL' \(see 'limelight predict --help'\)"),
        (["attend", "tiny", "x", "--encoding", "float8"], 2, "limelight: Invalid value for '--encoding': .*"),
        (["models", "--timeout", "0"], 2, "limelight: Invalid value for '--timeout': .*"),
    ],
)
def test_an_error_is_one_line(run: Run, arguments: list[str], status: int, line: str):
    found, output, errors = run(*arguments)
    assert (found, output) == (status, "")
    assert re.fullmatch(line + "\n", errors), errors


def test_a_full_server_and_a_slow_one_are_one_line(run: Run, server: Forwarder):
    server.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "256 instances wait already", after=1, retry_ms=1500)
    full = "limelight: RESOURCE_EXHAUSTED: 256 instances wait already (try again in 1.5 s)\n"
    assert run("predict", "tiny", "x") == (1, "", full)
    server.pauses["GetModel"] = 30
    status, output, errors = run("models", "tiny", "--timeout", "0.1")
    assert (status, output) == (1, "") and re.fullmatch("limelight: DEADLINE_EXCEEDED: .*\n", errors)


def test_text_that_is_not_utf8_is_an_error(run: Run):
    status, _, errors = run("predict", "tiny", "-", stdin=b"\xff\xfe")
    assert status == 1
    assert re.fullmatch(r"limelight: .*byte 0 of standard input \(0xff\) is not UTF-8\n", errors)


@pytest.mark.parametrize("command", [["models"], ["predict", "tiny", "x"], ["bench", "tiny", "x"]])
def test_no_server_is_one_line_naming_it(run: Run, command: list[str]):
    status, output, errors = run(*command, "--target", "127.0.0.1:1")
    assert (status, output) == (1, "")
    assert re.fullmatch(r"limelight: no server answers at 127\.0\.0\.1:1 \(.*\)\n", errors)


# gRPC waits forever for a call that Ctrl-C interrupts at an unlucky moment of its start.
WAITS_FOREVER = """
import limelight, threading
limelight.Client.close = lambda self: threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("before", "arguments"),
    [
        ("", ["generate", "echo", "the cat sat"]),
        (WAITS_FOREVER, ["generate", "echo", "the cat sat"]),
        ("", ["bench", "tiny", "--seconds", "60"]),
    ],
    ids=["generate", "generate, gRPC hangs", "bench"],
)
def test_ctrl_c_is_quiet(server: Forwarder, before: str, arguments: list[str]):
    server.pauses["Generate"] = 0.5
    with subprocess.Popen(
        [sys.executable, "-c", before + HEARS_CTRL_C, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            while len(server.requests) < 2 and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (130, b"")
    # A load that was interrupted is reported as far as it got.
    assert output == b"" or (arguments[0] == "bench" and output.startswith(b"Predict tiny, 4 callers"))


def test_a_reader_that_leaves_is_not_an_error_to_report(server: Forwarder, monkeypatch: pytest.MonkeyPatch):
    """In the middle of a long output, and before a short one that is written when the command ends."""
    server.pauses["Generate"] = 0.05
    limelight = " ".join(COMMAND)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    for command in (
        f"{limelight} generate echo 'the cat sat' --json --map '*' | head -c 10",
        f"{limelight} models | true",
    ):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        assert done.stdout in ('{"event": ', "")
        assert done.stderr == ""
