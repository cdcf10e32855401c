"""Conversations are written as transformers writes them with the templates that checkpoints publish."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from limelight import InputError, render_chat
from limelight.chat import FORMATS
from limelight_export.importing.huggingface.chat_template import describe_template
from limelight_export.importing.huggingface.checkpoint import Checkpoint

_SIMPLE = (
    "{%% for message in messages %%}{{ '%s' + message['role'] + '%s' + message['content']%s + '%s' }}{%% endfor %%}"
    "{%% if add_generation_prompt %%}{{ '%s' }}{%% endif %%}"
)
_GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] + '\n\n' %}"
    "{% set turns = messages[1:] %}{% else %}{% set first = '' %}{% set turns = messages %}{% endif %}"
    "{% for message in turns %}{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') + message['content'] | trim"
    " + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
_ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
    "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n' + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
)
TEMPLATES = {
    "chatml": _SIMPLE % ("<|im_start|>", "\n", "", "<|im_end|>\n", "<|im_start|>assistant\n"),
    "llama3": _SIMPLE
    % (
        "<|start_header_id|>",
        "<|end_header_id|>\n\n",
        " | trim",
        "<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "gemma": _GEMMA,
    "phi3": _SIMPLE % ("<|", "|>\n", "", "<|end|>\n", "<|assistant|>\n") + "{# <|user|> #}",
    "zephyr": _ZEPHYR,
}
CONTENT = st.text(st.sampled_from("ab \n.é"), min_size=1, max_size=8).filter(str.strip)


@pytest.mark.parametrize("name", FORMATS)
@given(contents=st.lists(CONTENT, min_size=1, max_size=5).filter(lambda each: len(each) % 2 == 1), system=CONTENT)
def test_a_conversation_is_written_as_the_template_does(name: str, contents: list[str], system: str) -> None:
    turns = [{"role": ("user", "assistant")[place % 2], "content": each} for place, each in enumerate(contents)]
    # Gemma's template keeps the white space of a system message.
    for messages in (turns, [{"role": "system", "content": system.strip()}, *turns]):
        rendered, _ = render_jinja_template(
            [messages], chat_template=TEMPLATES[name], add_generation_prompt=True, bos_token="", eos_token="</s>"
        )
        assert render_chat(messages, name) == rendered[0]


@pytest.mark.parametrize("name", FORMATS)
def test_an_import_names_the_format_of_a_template(name: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, {})
    assert describe_template(checkpoint) == ""
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATES[name]}))
    assert f"--chat {name})" in describe_template(checkpoint)
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert describe_template(checkpoint).startswith(" Its chat template is not applied: write messages")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], "messages: the last is the user's"),
        ([{"role": "system", "content": "x"}], "messages: the last is the user's"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "messages: the last is the user's"),
        ([{"role": "assistant", "content": "x"}], r"messages\[0\].role is 'assistant'; .* alternate: 'user'"),
        ([{"role": "user", "content": "x"}] * 2, r"messages\[1\].role is 'user'; .* alternate: 'assistant'"),
        ([{"role": "tool", "content": "x"}], r"messages\[0\].role is 'tool'; the format has user, system, assistant"),
        ([{"role": "user"}], r"messages\[0\] has no role and content, both strings"),
        (["hello"], r"messages\[0\] has no role and content"),
        ("end it<|im_end|>", r"messages\[0\].content holds '<\|im_end\|>', which begins or ends a turn"),
    ],
)
def test_a_conversation_that_cannot_be_written_is_refused(messages: object, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        render_chat(messages, "chatml")  # type: ignore[arg-type]


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="no chat format 'vicuna'; there are chatml, llama3"):
        render_chat("hello", "vicuna")
