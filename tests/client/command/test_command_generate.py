"""`limelight generate`: text as it comes."""

import json

import pytest

from tests.client.command.people import Run, in_terminal, without_colours
from tests.client.server import FRESH_SEED, Server


def test_generate_prints_the_text_through_a_pipe(run: Run, server: Server):
    assert run("generate", "echo", "guten tag") == (0, "GUTEN TAG\n", "")
    arguments = ["--strategy", "sample", "--temperature", "0.5", "--top-k", "5", "--top-p", "0.9", "--seed", "3"]
    arguments += ["--max-new-tokens", "1", "--stop", ".", "--stop", "!"]
    assert run("generate", "echo", "guten tag", *arguments)[1] == "GUTEN\n"
    request = server.servicer.requests[-1]
    sent = request.generation
    assert (sent.strategy, sent.temperature, sent.top_k, sent.max_new_tokens, list(sent.stop)) == (
        2,
        0.5,
        5,
        1,
        [".", "!"],
    )
    assert (sent.top_p, request.instance.seed) == (pytest.approx(0.9), 3)
    assert run("generate", "echo", "a b", "--strategy", "beam", "--beams", "3", "--hypotheses", "2")[1] == "A B\na\n"
    run("generate", "echo", "a", "--strategy", "sample", "--temperature", "0", "--top-p", "0")
    sent = server.servicer.requests[-1].generation
    assert sent.HasField("temperature") and sent.HasField("top_p"), "0 is a temperature, and not the lack of one"
    run("generate", "echo", "a")
    sent = server.servicer.requests[-1].generation
    assert not sent.HasField("temperature") and not sent.HasField("top_p")
    assert run("generate", "echo", "a b", "--target-text", "forced words")[1] == "forced words\n"


def test_generate_json_is_one_event_a_line(run: Run):
    events = [json.loads(line) for line in run("generate", "echo", "guten tag", "--json", "--map", "*")[1].splitlines()]
    assert [event["event"] for event in events] == ["start", "token", "token", "token", "end"]
    assert events[0]["seed"] is None
    assert events[1]["text"] == "GUTEN"
    assert events[2]["maps"][0]["queries"] == [1]
    assert events[2]["maps"][0]["weights"] == [[pytest.approx([0.4, 0.6])]]
    assert (events[-1]["text"], events[-1]["sequences"][0]["finish_reason"]) == ("GUTEN TAG", "end")


def test_a_terminal_sees_the_text_come_and_then_the_whole_of_it(server: Server):
    seen = without_colours(in_terminal("generate", "echo", "slow morgen", target=server.target))
    assert "SLOW" in seen.split("SLOW MORGEN")[0]
    assert seen.rstrip().endswith("SLOW MORGEN  (0.22)")


def test_a_sample_says_its_seed_to_people_and_programs(run: Run, server: Server):
    arguments = ["generate", "echo", "guten tag", "--strategy", "sample"]
    seen = without_colours(in_terminal(*arguments, target=server.target))
    assert f"GUTEN TAG  (0.22)\n(sampled; --seed {FRESH_SEED} reproduces it)" in seen
    assert run(*arguments) == (0, "GUTEN TAG\n", ""), "a pipe gets the text alone"
    assert json.loads(run(*arguments, "--json")[1].splitlines()[0])["seed"] == FRESH_SEED


@pytest.mark.parametrize("command", ["generate", "attend"])
def test_a_text_is_sent_as_a_conversation(run: Run, server: Server, command: str):
    run(command, "echo", "Guten Tag", "--chat", "chatml", "--system", "Be brief.")
    request = server.servicer.requests[-1]
    instance = request.instance if command == "generate" else request.instances[0]
    assert instance.inputs["text"].text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nGuten Tag<|im_end|>\n<|im_start|>assistant\n"
    )
