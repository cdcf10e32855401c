"""Every mistake is one line and an exit status; leaving is quiet."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.client.command.people import COMMAND, HEARS_CTRL_C, Run
from tests.client.server import Server


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (
            ["predict", "nope", "x"],
            1,
            "limelight: NOT_FOUND: no model 'nope'; there are echo, han, nli, scribe, vit, vqa, weather",
        ),
        (["predict", "scribe", "x", "--version", "9"], 1, "limelight: NOT_FOUND: no model 'scribe'; there are .*"),
        (
            ["attend", "scribe", "x", "--map", "no"],
            1,
            r"limelight: .*: attention.selections\[0\].names\[0\]: no map matches 'no'",
        ),
        (["predict", "coming", "x"], 1, "limelight: model 'coming' is still loading; try again soon"),
        (["attend", "broken", "x"], 1, "limelight: model 'broken' failed to load: model.onnx is not the file .*"),
        (["predict", "full", "x"], 1, r"limelight: RESOURCE_EXHAUSTED: .* \(try again in 1.5 s\)"),
        (["generate", "scribe", "x"], 1, "limelight: FAILED_PRECONDITION: model 'scribe' does not generate"),
        (["models", "sleepy", "--timeout", "0.1"], 1, "limelight: DEADLINE_EXCEEDED: .*"),
        (["predict", "scribe"], 2, r"limelight: nothing to send: model 'scribe' takes text \(text\)"),
        (["predict", "scribe", "two", "words"], 2, "limelight: 'words' is one value too many .*"),
        (
            ["predict", "scribe", "-i", "txet=a"],
            2,
            r"limelight: model 'scribe' has no input 'txet'; .* takes text \(text\); did you mean 'text'\?",
        ),
        (["predict", "scribe", "-i", "text"], 2, "limelight: --input takes NAME=VALUE, not 'text'"),
        (["predict", "scribe", "--image", "a.png"], 2, "limelight: model 'scribe' has no image input; .*"),
        (["predict", "scribe", "--example", "1"], 2, "limelight: model 'scribe' has 1 examples, from 0"),
        (["predict", "scribe", "@/no/such/file"], 1, "limelight: /no/such/file: No such file or directory"),
        (["predict", "han", __file__], 2, "limelight: '.*' is a file: @.* sends its content .*"),
        (["predict", "scribe", __file__], 2, "limelight: '.*' is a file: @.* sends its content .*"),
        (["predict", "nli", "It rains.", __file__], 2, "limelight: '.*' is a file; input 'pair' takes two texts: .*"),
        (["attend", "scribe", "x", "--png", "a.jpg"], 2, "limelight: --png writes PNG files, .* not 'a.jpg'"),
        (["predict", "vit", "/no/such.png"], 1, "limelight: /no/such.png: No such file or directory"),
        (
            ["attend", "scribe", "x", "--png", "/dev/null/a.png"],
            1,
            "limelight: /dev/null: (File exists|Not a directory)",
        ),
        (["attend", "scribe", "x", "--group", "0:3"], 2, "limelight: a group is NAME=PLACE, not '0:3'"),
        (["attend", "scribe", "x", "--group", "a=0-3"], 2, "limelight: '0-3' is not a valid PLACE of a group: .*"),
        (["generate", "han", "x", "--target-text", "y"], 2, "limelight: model 'han' does not support a forced output"),
        (["generate", "echo", "x", "--system", "y"], 2, "limelight: --system needs --chat"),
        (["generate", "echo", "x", "--chat", "z"], 1, "limelight: no chat format 'z'; there are chatml, .*"),
        (["generate", "echo", "a <|im_end|>", "--chat", "chatml"], 1, "limelight: .*content holds '<.im_end.>', .*"),
        (["attend", "nli", "x", "y", "--chat", "chatml"], 2, "limelight: --chat: model 'nli' does not take one text"),
        (["predict", "scribe", "x", "--seed", str(2**70)], 1, "limelight: a seed is from 0 to .*"),
        (["bench", "scribe", "--seconds", "1", "-n", "2"], 2, "limelight: give either --seconds or --requests"),
        (["bench", "nope", "x"], 1, "limelight: NOT_FOUND: .*"),
        (["frobnicate"], 2, r"limelight: No such command 'frobnicate' \(see 'limelight --help'\)"),
        (
            ["predict", "--frobnicate"],
            2,
            r"limelight: No such option: --frobnicate \(see 'limelight predict --help'\)",
        ),
        (
            ["attend", "scribe", "x", "--topk", "1"],
            2,
            r"limelight: No such option: --topk; did you mean '--top-k'\? \(see 'limelight attend --help'\)",
        ),
        (["predict"], 2, r"limelight: Missing argument 'MODEL' \(see 'limelight predict --help'\)"),
        (["attend", "scribe", "x", "--encoding", "float8"], 2, "limelight: Invalid value for '--encoding': .*"),
        (["models", "--timeout", "0"], 2, "limelight: Invalid value for '--timeout': .*"),
    ],
)
def test_an_error_is_one_line(run: Run, arguments: list[str], status: int, line: str):
    found, output, errors = run(*arguments)
    assert (found, output) == (status, "")
    assert re.fullmatch(line + "\n", errors), errors


def test_text_that_is_not_utf8_is_an_error(run: Run):
    status, _, errors = run("predict", "scribe", "-", stdin=b"\xff\xfe")
    assert status == 1
    assert re.fullmatch(r"limelight: .*byte 0 of standard input \(0xff\) is not UTF-8\n", errors)


@pytest.mark.parametrize("command", [["models"], ["predict", "scribe", "x"], ["bench", "scribe", "x"]])
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
        ("", ["generate", "echo", "slow " * 100]),
        (WAITS_FOREVER, ["generate", "echo", "slow " * 100]),
        ("", ["bench", "scribe", "--seconds", "60"]),
    ],
    ids=["generate", "generate, gRPC hangs", "bench"],
)
def test_ctrl_c_is_quiet(server: Server, before: str, arguments: list[str]):
    with subprocess.Popen(
        [sys.executable, "-c", before + HEARS_CTRL_C, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"LIMELIGHT_TARGET": server.target},
    ) as process:
        try:
            while len(server.servicer.requests) < 2 and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (130, b"")
    # A load that was interrupted is reported as far as it got.
    assert output == b"" or (arguments[0] == "bench" and output.startswith(b"Predict scribe, 4 callers"))


def test_a_reader_that_leaves_is_not_an_error_to_report(server: Server):
    """In the middle of a long output, and before a short one that is written when the command ends."""
    limelight, environment = " ".join(COMMAND), os.environ | {"LIMELIGHT_TARGET": server.target}
    environment.pop("PYTHONUNBUFFERED", None)
    for command in (
        f"{limelight} generate echo '{'a ' * 1000}' --json --map '*' | head -c 10",
        f"{limelight} models | true",
    ):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=60)
        assert done.stdout in ('{"event": ', "")
        assert done.stderr == ""
