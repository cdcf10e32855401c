"""Checkpoints that cannot be imported are refused in one sentence, before anything is computed."""

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from limelight_bundle.tokenizer_files import load_tokenizer
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from limelight_export.importing.huggingface.checkpoint import read_checkpoint
from limelight_export.importing.huggingface.convert_weights import convert_weights
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from limelight_models.index import ZOO
from tests.importing.huggingface.checkpoints import (
    change_config,
    sizes,
    stated_pooling,
    tokenizer,
    write_checkpoint,
    write_json,
)
from tests.importing.huggingface.decoders import DECODERS
from tests.importing.huggingface.encoder_decoders import ENCODER_DECODERS
from tests.importing.huggingface.encoders import ENCODERS

EVERY = {**ENCODERS, **DECODERS, **ENCODER_DECODERS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return ENCODERS["bert"].write(tmp_path / "small")


def refused(folder: Path, **arguments: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_model(folder, **arguments)
    message = caught.value.message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_a_field_that_nobody_has_classified_is_refused(model_type: str) -> None:
    with pytest.raises(CheckpointError, match="attention_temperature 2, which is not classified"):
        ARCHITECTURES[model_type].fields.check({"model_type": model_type, "attention_temperature": 2})


@pytest.mark.parametrize("name", EVERY)
def test_every_field_that_transformers_writes_is_classified(name: str) -> None:
    import transformers

    model = EVERY[name]
    config = getattr(transformers, f"{model.library_name}Config")(**model.config())
    ARCHITECTURES[config.model_type].fields.check(json.loads(config.to_json_string(use_diff=False)))


@pytest.mark.parametrize(
    ("model_type", "field", "value"),
    [
        # transformers 5 ignores it, and computes absolute positions.
        ("bert", "position_embedding_type", "relative_key"),
        ("bert", "is_decoder", True),
        ("electra", "add_cross_attention", True),
        ("roberta", "pruned_heads", {"1": [0]}),
        # The modules use 32 buckets, whatever is stated.
        ("mpnet", "relative_attention_num_buckets", 64),
        ("albert", "net_structure_type", 1),
        # Frequencies that depend on the length would be those of the traced length.
        ("modernbert", "rope_parameters", {"full_attention": {"rope_type": "dynamic", "factor": 2.0}}),
        ("nomic_bert", "rope_parameters", {"rope_type": "dynamic", "factor": 2.0}),
        ("gte", "rope_scaling", {"type": "ntk", "factor": 8.0}),
        ("big_bird", "attention_type", "sparse"),
        ("xmod", "default_language", None),
    ],
)
def test_a_value_that_the_modules_do_not_compute_is_refused(model_type: str, field: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=f"states {field} .*, which is not computed; it can be "):
        ARCHITECTURES[model_type].fields.check({"model_type": model_type, field: value})


def test_an_unclassified_field_stops_an_import(folder: Path) -> None:
    change_config(folder, attention_window=64)
    assert "attention_window 64, which is not classified for bert" in refused(folder)


def test_an_architecture_that_is_not_known_is_refused_by_name(folder: Path) -> None:
    change_config(folder, model_type="unheard_of")
    assert "'unheard_of'; it can be albert, " in refused(folder)
    change_config(folder, model_type="swin")
    assert refused(folder) == "Swin cannot be imported: it attends within windows that shift from layer to layer"
    for model_type, message in (
        (
            "longformer",
            "Longformer cannot be imported: most of its tokens attend within a window, whose maps are bands",
        ),
        ("fnet", "FNet cannot be imported: it mixes tokens by a Fourier transform, and has no attention"),
        ("flaubert", "FlauBERT cannot be imported: its tokenizer is a program, which no tokenizer.json can hold"),
    ):
        change_config(folder, model_type=model_type)
        assert refused(folder) == message


@pytest.mark.parametrize(
    ("library_name", "own", "message"),
    [
        (
            "Mamba2",
            {"num_heads": 4, "head_dim": 16, "expand": 2, "state_size": 8, "n_groups": 1},
            "Mamba-2 cannot be imported: a state that fades takes the place of attention; the zoo's mamba-2 shows what "
            "weights that comes to",
        ),
        (
            "Qwen3Next",
            {"num_key_value_heads": 2, "head_dim": 8, "num_experts": 2, "num_experts_per_tok": 1},
            "Qwen3-Next cannot be imported: a delta rule takes the place of attention in most layers; the zoo's "
            "gated-deltanet shows what weights that comes to, and gated-attention the other layers",
        ),
    ],
)
def test_attention_without_a_matrix_is_refused_with_the_models_that_show_it(
    tmp_path: Path, library_name: str, own: dict[str, Any], message: str
) -> None:
    config = getattr(transformers, f"{library_name}Config")(**sizes(**own))
    folder = write_checkpoint(tmp_path / "small", getattr(transformers, f"{library_name}ForCausalLM"), config)
    assert refused(folder) == message
    named = re.findall(r"[a-z0-9]+-[a-z0-9]+", message.partition("the zoo's")[2])
    assert named and {*named} <= {*ZOO}


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_of_a_checkpoint_is_refused(folder: Path, file: str) -> None:
    content = json.loads((folder / file).read_text())
    write_json(folder / file, content | {"auto_map": {"AutoModel": "modeling.Own"}})
    assert refused(folder) == (
        f"{file} states auto_map: the checkpoint brings code of its own, and no code of a checkpoint is run"
    )


def test_quantised_weights_and_adapters_are_refused(folder: Path) -> None:
    change_config(folder, quantization_config={"quant_method": "bitsandbytes"})
    assert "quantised weights cannot be imported" in refused(folder)
    change_config(folder, quantization_config=None)
    (folder / "model.safetensors").unlink()
    write_json(folder / "adapter_config.json", {})
    assert "holds an adapter without its model" in refused(folder)


def test_a_folder_without_configuration_or_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    assert "has no config.json" in refused(tmp_path)
    (folder / "model.safetensors").unlink()
    assert refused(folder).endswith("has no model.safetensors")
    (folder / "config.json").write_text("{")
    assert "config.json of the checkpoint is not JSON" in refused(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"model_type": "bert", "a": ' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deeply"),
        ('{"model_type": "bert", "hidden_size": 1' + "0" * 5000 + "}", "a number too long"),
        ("[]", "is not a JSON object"),
        ('{"architectures": 7, "model_type": ["bert"]}', "states the model_type"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_refused(folder: Path, content: str, message: str) -> None:
    (folder / "config.json").write_text(content)
    assert message in refused(folder)


@pytest.mark.parametrize("place", ["../outside.safetensors", "/absolute", "missing.safetensors", 7])
def test_an_index_that_leads_out_of_the_folder_is_refused(folder: Path, place: Any) -> None:
    outside = (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    places = dict.fromkeys(load_file(outside), str(outside) if place == "/absolute" else place)
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    assert re.search("leads out of its folder|which the folder does not have|state the file of each", refused(folder))


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "tokenizer.json", "README.md", "generation_config.json", "2_Dense/a.json"],
)
def test_files_without_an_end_or_of_other_folders_are_refused(folder: Path, name: str) -> None:
    """Those that only transformers opens as well."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert refused(folder) == f"{name} of the checkpoint is not a regular file"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert refused(folder) == f"{name} of the checkpoint is not a regular file"
    path.unlink()
    outside = folder.parent / "outside"
    outside.write_text("{}")
    path.symlink_to(outside)
    assert refused(folder) == f"{name} of the checkpoint leads out of its folder; copy the file there"
    path.unlink()
    path.symlink_to(path.name)
    assert "cannot be read" in refused(folder)


def test_weights_that_are_cut_off_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    assert "model.safetensors is damaged or not whole" in refused(folder)


def test_a_cache_of_hugging_face_is_read(folder: Path, tmp_path: Path) -> None:
    """Its snapshots are links to a folder of blobs beside them."""
    snapshot, blobs = tmp_path / "cache" / "snapshots" / "0a1b", tmp_path / "cache" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(folder.iterdir()):
        (snapshot / file.name).symlink_to(Path("..", "..", "blobs", file.rename(blobs / str(number)).name))
    read_model(snapshot)


@pytest.mark.parametrize(
    "fields",
    [
        {"quantization_config": None, "something_new": None},
        {"unsloth_version": "2025.9.7", "unsloth_fixed": True, "transformers.js_config": {"dtype": "q8"}},
    ],
)
def test_fields_that_say_nothing_are_no_reason_to_refuse(folder: Path, fields: dict[str, Any]) -> None:
    change_config(folder, **fields)
    read_model(folder)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_embedder_is_not_imported_as_a_writer_of_texts(tmp_path: Path, name: str) -> None:
    folder = ENCODER_DECODERS[name].write(tmp_path / "embedder")
    stated_pooling(folder)
    assert "as a model of the task embedding, for which" in refused(folder)
    assert read_model(folder, task="text-to-text").card.description.summary == "Writes a text for a source."


def test_pickled_weights_are_refused_with_the_command_that_converts_them(folder: Path, tmp_path: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert refused(folder) == (
        "pytorch_model.bin is a pickle, which can run code when it is read; convert it: "
        f"limelight import convert-weights {folder} --out NEW_FOLDER"
    )
    converted = convert_weights(folder, tmp_path / "converted")
    found = load_file(converted / "model.safetensors")
    assert set(found) == set(weights)
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    read_model(converted)
    with pytest.raises(CheckpointError, match="exists"):
        convert_weights(folder, converted)


def test_files_that_lead_out_or_have_no_end_are_not_copied_by_a_conversion(folder: Path, tmp_path: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    for name, target, message in (
        ("notes", "/dev/zero", "notes of the checkpoint is not a regular file"),
        ("runs", "/", "runs of the checkpoint is a link to a folder"),
        ("deep/notes", "/etc/hostname", "deep/notes of the checkpoint leads out of its folder"),
    ):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(target)
        with pytest.raises(CheckpointError, match=message):
            convert_weights(folder, tmp_path / "converted")
        path.unlink()
    assert not (tmp_path / "converted").exists()
    convert_weights(folder, tmp_path / "converted")


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("bert", "num_attention_heads", 10**30),
        ("bert", "num_hidden_layers", 2**20),
        ("t5", "relative_attention_max_distance", 0),
        ("llama", "max_position_embeddings", 10**30),
        ("llama", "num_key_value_heads", 3),
    ],
)
def test_sizes_that_no_model_has_are_refused(tmp_path: Path, name: str, field: str, value: int) -> None:
    folder = EVERY[name].write(tmp_path / "small")
    change_config(folder, **{field: value})
    refused(folder)


class Malicious:
    """An object whose reading would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_that_runs_code_is_neither_imported_nor_converted(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    trap = tmp_path / "ran"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Malicious(trap)}))
    assert "is a pickle" in refused(folder)
    with pytest.raises(CheckpointError, match="holds more than tensors, or is damaged"):
        convert_weights(folder, tmp_path / "converted")
    assert not trap.exists()
    assert not (tmp_path / "converted").exists()


def test_weights_that_would_be_random_are_refused(tmp_path: Path) -> None:
    folder = ENCODERS["bert"].write(tmp_path / "small", "ForMaskedLM")
    message = refused(folder, task="classification")
    assert "the checkpoint has no weights for bert.pooler.dense.bias, " in message
    assert "--task names another" in message


def test_layers_that_the_configuration_leaves_out_are_refused(folder: Path) -> None:
    change_config(folder, num_hidden_layers=1)
    assert "does not use the weights bert.encoder.layer.1." in refused(folder)


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("gpt-neo", ["transformer.h.1.attn.attention.bias", "transformer.h.1.attn.attention.masked_bias"]),
        ("gpt-neox", ["gpt_neox.layers.1.attention.bias", "gpt_neox.layers.1.attention.rotary_emb.inv_freq"]),
        ("xglm", ["model.embed_positions.weights"]),
    ],
)
def test_masks_and_tables_of_older_files_are_no_layers(tmp_path: Path, name: str, left: list[str]) -> None:
    folder = DECODERS[name].write(tmp_path / "small")
    weights = load_file(folder / "model.safetensors") | {each: torch.ones(4) for each in left}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    read_model(folder)


def test_a_task_that_the_checkpoint_does_not_state_must_be_named(folder: Path) -> None:
    change_config(folder, architectures=["BertForNextSentencePrediction"])
    assert "name a task: --task classification|cross-encoder|" in refused(folder)
    assert "BERT cannot be imported for 'translation'; it can be for classification" in refused(
        folder, task="translation"
    )
    assert refused(folder, task="clasification").endswith("; did you mean 'classification'?")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("model", "bert"),
        ("checkpoint-500", "bert"),
        ("0123456789" * 4, "bert"),
        ("My Model", "my-model"),
        ("é", "bert"),
    ],
)
def test_a_folder_whose_name_says_nothing_has_the_name_of_its_architecture(
    tmp_path: Path, folder: str, name: str
) -> None:
    assert read_model(ENCODERS["bert"].write(tmp_path / folder)).card.description.name == name


def test_no_bundle_is_written_into_the_checkpoint(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    with pytest.raises(CheckpointError, match=r"is the checkpoint itself, .* choose another --repository or --name"):
        import_checkpoint(folder, folder.parent)
    assert sorted(folder.rglob("*")) == before


def test_pooling_that_no_file_states_must_be_named(tmp_path: Path) -> None:
    folder = ENCODERS["bert"].write(tmp_path / "small", "Model")
    assert "state it: --pooling cls|max|mean|mean_sqrt_len|weightedmean|lasttoken" in refused(folder)
    assert "the pooling 'median' is not known" in refused(folder, options=ImportOptions(pooling="median"))
    write_json(folder / "modules.json", [{"type": "sentence_transformers.models.Transformer", "path": ""}])
    assert "modules.json has no module Pooling" in refused(folder)
    assert "leave out --pooling" in refused(folder, options=ImportOptions(pooling="mean"))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode_median": True}, "states pooling_mode_median True"),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": False}, "states the pooling of nothing"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "sentence_bert_config.json states do_lower_case"),
        # Older versions have a name for each kind of model.
        ("sentence_xlm-roberta_config.json", {"do_lower_case": True}, "roberta_config.json states do_lower_case"),
        (
            "config_sentence_transformers.json",
            {"prompts": {"query": "query: "}, "default_prompt_name": "query"},
            "puts the prompt 'query' before every text",
        ),
        ("modules.json", [{"type": "models.CNN", "path": "2_CNN"}], "has the module CNN at '2_CNN'"),
        ("modules.json", [{"type": "models.Dense", "path": "2_Dense"}], "2_Dense has no model.safetensors"),
        ("modules.json", [None], "has the module None at ''"),
    ],
)
def test_what_sentence_transformers_would_do_beside_is_refused(
    tmp_path: Path, file: str, content: Any, message: str
) -> None:
    folder = ENCODERS["bert"].write(tmp_path / "small", "Model")
    modules = [{"type": "models.Transformer", "path": ""}, {"type": "models.Pooling", "path": "1_Pooling"}]
    write_json(folder / "modules.json", modules)
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    write_json(folder / file, modules + content if isinstance(content, list) else content)
    assert message in refused(folder)


def test_a_tokenizer_that_would_read_otherwise_is_refused(folder: Path) -> None:
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    write_json(folder / "tokenizer_config.json", settings | {"do_lower_case": False})
    assert "states do_lower_case False, but tokenizer.json lowercase True" in refused(folder)


def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    content = json.loads(tokenizer())
    content["model"]["vocab"]["more"] = 70
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert "has the token id 70, but the model embeds 70 tokens" in refused(folder)


def test_a_tokenizer_that_leaves_out_special_tokens_is_refused(folder: Path) -> None:
    content = json.loads(tokenizer())
    (folder / "tokenizer.json").write_text(json.dumps(content | {"post_processor": None}))
    assert "tokenizer.json adds no special tokens to a text" in refused(folder)


def test_a_tokenizer_outside_the_vetted_rules_is_refused(folder: Path) -> None:
    content = json.loads(tokenizer())
    content["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"Regex": "(a+)+b"},
        "behavior": "Isolated",
        "invert": False,
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert "regular expression of no well-known tokenizer" in refused(folder)


def test_what_transformers_writes_of_the_tokenizers_of_every_architecture_is_read() -> None:
    named = {TOKENIZER_MAPPING_NAMES.get(model_type) for model_type in ARCHITECTURES} - {None, "TokenizersBackend"}
    # Those that it does not write without files or packages of their own (test_esm.py, test_tokenizers.py).
    named -= {"EsmTokenizer", "BioGptTokenizer", "RoFormerTokenizer"}
    assert {"DebertaV2Tokenizer", "Qwen2Tokenizer", "CLIPTokenizer", "T5Tokenizer"} <= named
    for name in named:
        load_tokenizer(getattr(transformers, name)().backend_tokenizer.to_str())


def test_the_name_and_the_licence_come_from_the_folder(folder: Path) -> None:
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# A model\n")
    renamed = folder.rename(folder.with_name("My Model_v1.5"))
    checkpoint = read_checkpoint(renamed)
    assert (checkpoint.name, checkpoint.licence) == ("my-model_v1-5", "apache-2.0")
    found = read_model(renamed).card.description.source
    assert (list(found.classes), found.licence) == (["BertForSequenceClassification"], "apache-2.0")
