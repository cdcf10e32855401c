"""Conversations are written as transformers writes them with the templates that checkpoints publish."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from limelight import InputError, render_chat
from limelight.chat import FORMATS
from limelight_bundle import errors
from limelight_bundle.chat.template import ChatTemplate, chat_template
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import read_bundle
from limelight_bundle.values import Text
from limelight_export.importing.huggingface.chat_template import read_chat
from limelight_export.importing.huggingface.checkpoint import Checkpoint
from limelight_export.importing.huggingface.importer import import_checkpoint
from limelight_export.importing.huggingface.library_tokenizer import load_library_tokenizer
from tests.importing.huggingface.checkpoints import GENERIC
from tests.importing.huggingface.decoders import DECODERS, tokenizer

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
# What other published templates are made of.
OTHERS = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "chat_templates").glob("*.jinja"))}
CONTENT = st.text(st.sampled_from("ab \n.é"), min_size=1, max_size=8).filter(str.strip)

SAID = CONTENT | st.sampled_from(["<think>\nhm\n</think>\n\nyes", "<tool>4</tool>", "<b>\t& 😀"])


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


@pytest.mark.parametrize("name", [*TEMPLATES, *OTHERS])
@given(contents=st.lists(SAID, min_size=1, max_size=5), system=CONTENT, prompt=st.booleans())
def test_a_template_is_run_as_transformers_runs_it(name: str, contents: list[str], system: str, prompt: bool) -> None:
    source = {**TEMPLATES, **OTHERS}[name]
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    turns = [{"role": ("user", "assistant")[place % 2], "content": each} for place, each in enumerate(contents)]
    for messages in (turns, [{"role": "system", "content": system}, *turns]):
        expected, _ = render_jinja_template([messages], chat_template=source, add_generation_prompt=prompt, **tokens)
        assert ChatTemplate(source, tokens).render(messages, add_generation_prompt=prompt) == expected[0]


def test_what_a_template_itself_refuses_is_said() -> None:
    turns = [{"role": "user", "content": "a"}] * 2
    with pytest.raises(errors.InputError, match=r"chat template: turns alternate, but there is a second of user$"):
        ChatTemplate(OTHERS["mistral"]).render(turns)


def _checkpoint(folder: Path, template: object) -> Checkpoint:
    (folder / "tokenizer.json").write_text(tokenizer(begins=True))
    settings = {"tokenizer_class": GENERIC, "bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return Checkpoint(folder, {})


@pytest.mark.parametrize("name", FORMATS)
def test_an_import_takes_a_template_and_names_its_format(name: str, tmp_path: Path) -> None:
    assert read_chat(Checkpoint(tmp_path, {})) == (None, "")
    taken, said = read_chat(_checkpoint(tmp_path, TEMPLATES[name]))
    assert taken is not None and said.startswith(" It takes conversations") and f"--chat {name})" in said
    assert taken.source == TEMPLATES[name] and set(taken.tokens) <= {"bos_token", "eos_token"}
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content.zfill(99) }}")
    assert read_chat(_checkpoint(tmp_path, "")) == (
        None,
        " Its chat template is not applied: the chat template uses the method 'zfill', which is not allowed.",
    )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ([{"name": "default", "template": "{{ messages[0].content }}"}, {"name": "b", "template": "x"}], "It takes"),
        ([{"name": "a", "template": "x"}, {"name": "b", "template": "y"}], "none is the default"),
        ("{{ messages[0].role.bad.worse }}", "is not applied: cannot be written by .*'bad'"),
        ("{% for i in range(99999) %}{% for j in range(999) %}{% endfor %}{% endfor %}", "takes too many steps"),
        ("{{ messages[0].content|safe + '<' }}", "it writes .* where transformers writes"),
    ],
)
def test_an_import_says_why_a_template_is_not_taken(template: object, expected: str, tmp_path: Path) -> None:
    taken, said = read_chat(_checkpoint(tmp_path, template))
    assert re.search(expected, said) and (taken is not None) == (expected == "It takes")


def test_a_bundle_has_the_template_and_reads_what_it_writes_as_transformers_does(tmp_path: Path) -> None:
    folder = DECODERS["llama"].write(tmp_path / "checkpoint" / "small")
    source = "{{ bos_token }}" + _SIMPLE % ("<s>", ": ", "|trim", "</s>", "<s>assistant: ")
    _checkpoint(folder, source)
    made = import_checkpoint(folder, tmp_path)
    generation = made.bundle.generation
    assert "chat-template" in made.bundle.required_features
    assert made.file(generation.chat_template).read_text() == source
    assert dict(generation.chat_tokens) == {"bos_token": "<s>"}
    assert made.bundle.description.results[0].sequence.chat
    messages = [{"role": "user", "content": " the cat"}]
    chat = chat_template(made)
    assert chat is not None
    row = Preprocessor(made).row({"text": Text(chat.render(messages), complete=True)})
    library = load_library_tokenizer(folder)
    expected = library.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert row.tensors["prompt_ids"].tolist() == expected
    labels = row.tokens["prompt_ids"]
    assert list(labels.texts[:4]) == ["<s>", "<s>", "u", "s"]
    assert list(labels.special[:4]) == [True, True, False, False]
    description = json.loads((made.path / "bundle.json").read_text())
    for change, reason in (
        ({"chat_template": "other.jinja"}, "the file 'other.jinja', which the bundle does not list"),
        ({"chat_template": ""}, "takes conversations without a chat template"),
    ):
        changed = {**description, "generation": {**description["generation"], **change}}
        (made.path / "bundle.json").write_text(json.dumps(changed))
        with pytest.raises(errors.BundleError, match=reason):
            read_bundle(made.path)


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
