"""`limelight generate`: text as it comes."""

import json

import numpy as np
import pytest

from tests.client.command.people import Run, in_terminal, without_colours
from tests.client.served import TEXT, echo, probability, said, steps
from tests.kit.forwarder import Forwarder


def put_out(server: Forwarder) -> list[str]:
    """The texts that the server put out last."""
    return [each.text for each in server.answers[-1].end.sequences]


def test_generate_prints_the_text_through_a_pipe(run: Run, server: Forwarder):
    assert run("generate", "echo", TEXT) == (0, f"{said(echo())}\n", "")
    arguments = ["--strategy", "sample", "--temperature", "0.5", "--top-k", "5", "--top-p", "0.9", "--seed", "3"]
    arguments += ["--max-new-tokens", "1", "--stop", ".", "--stop", "!"]
    assert run("generate", "echo", TEXT, *arguments)[1] == f"{put_out(server)[0]}\n"
    request = server.requests[-1]
    sent = request.generation
    assert (sent.strategy, sent.temperature, sent.top_k, sent.max_new_tokens, list(sent.stop)) == (
        2,
        0.5,
        5,
        1,
        [".", "!"],
    )
    assert (sent.top_p, request.instance.seed) == (pytest.approx(0.9), 3)
    output = run("generate", "echo", TEXT, "--strategy", "beam", "--beams", "3", "--hypotheses", "2")[1]
    assert output.splitlines() == put_out(server) and len(put_out(server)) == 2
    run("generate", "echo", "a", "--strategy", "sample", "--temperature", "0", "--top-p", "0")
    sent = server.requests[-1].generation
    assert sent.HasField("temperature") and sent.HasField("top_p"), "0 is a temperature, and not the lack of one"
    run("generate", "echo", "a")
    sent = server.requests[-1].generation
    assert not sent.HasField("temperature") and not sent.HasField("top_p")
    assert run("generate", "echo", TEXT, "--target-text", "a dog")[1] == "a dog\n"


def test_generate_goes_on_behind_a_target(run: Run, server: Forwarder):
    arguments = ["--target-text", "a dog", "--continue", "--max-new-tokens", "2", "--top-logprobs", "2"]
    assert run("generate", "echo", TEXT, *arguments)[1] == f"{put_out(server)[0]}\n"
    assert put_out(server)[0].startswith("a dog ")
    events = [json.loads(line) for line in run("generate", "echo", TEXT, *arguments, "--json")[1].splitlines()]
    assert [each["forced"] for each in events[1:4]] == [True, True, False]
    assert [len(each["top"]["texts"][0]) for each in events[1:4]] == [2] * 3
    assert events[-1]["sequences"][0]["forced_tokens"] == 2


def test_generate_json_is_one_event_a_line(run: Run):
    answer, output = echo(), run("generate", "echo", TEXT, "--json", "--map", "decoder.0.cross")[1]
    events = [json.loads(line) for line in output.splitlines()]
    assert [event["event"] for event in events] == ["start", *["token"] * len(answer.token_ids), "end"]
    assert events[0]["seed"] is None
    assert [event["text"] for event in events[1:-1]] == [*steps(answer)[:-1], ""], "a special token has no text"
    assert events[2]["maps"][0]["queries"] == [1]
    row = answer.maps["decoder.0.cross"].weights[0, 1].tolist()
    assert events[2]["maps"][0]["weights"] == [[pytest.approx(row, rel=1e-4)]]
    assert (events[-1]["text"], events[-1]["sequences"][0]["finish_reason"]) == (said(answer), "end")


def test_a_terminal_sees_the_text_come_and_then_the_whole_of_it(server: Forwarder):
    server.pauses["Generate"] = 0.2
    seen, whole = without_colours(in_terminal("generate", "echo", TEXT)), said(echo())
    assert whole.split()[0] in seen.split(whole)[0]
    assert seen.rstrip().endswith(f"{whole}  ({probability(echo()):.2f})")


def test_a_sample_says_its_seed_to_people_and_programs(run: Run, server: Forwarder):
    arguments = ["generate", "echo", TEXT, "--strategy", "sample"]
    seen = without_colours(in_terminal(*arguments))
    _, start, *_, last = server.answers
    (sequence,) = last.end.sequences
    chance = f"{np.exp(sum(sequence.log_probabilities)):.2f}"
    assert f"{sequence.text}  ({chance})\n(sampled; --seed {start.start.seed} reproduces it)" in seen
    assert run(*arguments) == (0, f"{put_out(server)[0]}\n", ""), "a pipe gets the text alone"
    again = ["--seed", str(start.start.seed)]
    assert run(*arguments, *again)[1] == f"{sequence.text}\n"
    assert json.loads(run(*arguments, *again, "--json")[1].splitlines()[0])["seed"] == start.start.seed


@pytest.mark.parametrize("command", ["generate", "attend"])
def test_a_text_is_sent_as_a_conversation(run: Run, server: Forwarder, command: str):
    run(command, "echo", "Guten Tag", "--chat", "chatml", "--system", "Be brief.")
    request = server.requests[-1]
    instance = request.instance if command == "generate" else request.instances[0]
    assert instance.inputs["text"].text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nGuten Tag<|im_end|>\n<|im_start|>assistant\n"
    )
