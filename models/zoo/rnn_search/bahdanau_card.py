"""The card of RNNsearch."""

from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2, values_pb2
from models.cards import describe
from models.cards.card import Card
from models.zoo.rnn_search.bahdanau import BahdanauConfig

SOURCE_TOKENIZER = "source.json"
TARGET_TOKENIZER = "target.json"


def card(config: BahdanauConfig, *, source_tokenizer: str, target_tokenizer: str, features: int = 0) -> Card:
    """Describe the model; tokenizers: texts of the two files; features: size of the weights' feature axis, or 0."""
    text = model_pb2.InputDescription(
        name="text",
        kind=model_pb2.INPUT_KIND_TEXT,
        summary="What is to be rewritten.",
        tensors=[
            describe.token_tensor("source_ids", "source_mask", config.source_vocabulary, {"source": config.max_source})
        ],
    )
    # A target may be one token longer than what is put out freely: its end token is part of it.
    target = model_pb2.InputDescription(
        name="target",
        kind=model_pb2.INPUT_KIND_TEXT,
        optional=True,
        summary="Forces the output: its attention is answered instead of a free one.",
        tensors=[
            describe.token_tensor(
                "target_ids", "target_mask", config.target_vocabulary, {"target": config.max_new_tokens}
            )
        ],
    )
    cross = model_pb2.MapDescription(
        name="decoder.cross",
        stack="decoder",
        kind=attention_pb2.MAP_KIND_CROSS,
        normalised=True,
        heads=1,
        query_labels="output",
        key_labels="source",
        form=model_pb2.MAP_FORM_DENSE,
        features=features,
        summary="Where the decoder looked in the source before it put out each token.",
    )
    label_sets = [
        model_pb2.LabelSetDescription(name="output", kind=attention_pb2.LABEL_KIND_OUTPUT_STEPS),
        model_pb2.LabelSetDescription(
            name="source",
            kind=attention_pb2.LABEL_KIND_TOKENS,
            input="text",
            tensor="source_ids",
            dimension="source",
        ),
    ]
    description = model_pb2.ModelDescription(
        name="bahdanau",
        title="RNNsearch",
        summary="Rewrites a text token by token, looking at the source before each one.",
        task=model_pb2.TASK_GENERATION,
        inputs=[text, target],
        outputs=[
            model_pb2.OutputDescription(
                name="scores",
                data_type=values_pb2.DATA_TYPE_FLOAT32,
                dimensions=[
                    model_pb2.Dimension(name="output"),
                    model_pb2.Dimension(name="token", size=config.target_vocabulary),
                ],
                summary="Scores of every token at each step, before softmax.",
            )
        ],
        result=model_pb2.ResultDescription(
            sequence=model_pb2.SequenceDescription(
                label_set="output", target_input="target", max_new_tokens=config.max_new_tokens
            )
        ),
        maps=[cross],
        label_sets=label_sets,
        limits=model_pb2.Limits(max_characters=config.max_characters),
        taxonomy=describe.taxonomy(
            "singular",
            "single-level",
            "single-representational",
            "additive",
            "global",
            "single-dimensional",
            "basic",
            "singular",
        ),
        citation=model_pb2.Citation(
            authors=["Bahdanau", "Cho", "Bengio"],
            title="Neural Machine Translation by Jointly Learning to Align and Translate",
            year=2015,
            venue="ICLR",
        ),
    )
    steps = {
        "text": describe.tokenize(SOURCE_TOKENIZER, "source_ids"),
        "target": describe.tokenize(TARGET_TOKENIZER, "target_ids", special_tokens=True),
    }
    axes = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY)
    return Card(
        description=description,
        preprocessing=tuple(bundle_pb2.Preprocessing(input=name, steps=[step]) for name, step in steps.items()),
        map_axes={"decoder.cross": (*axes, bundle_pb2.AXIS_FEATURE) if features else axes},
        files={SOURCE_TOKENIZER: source_tokenizer, TARGET_TOKENIZER: target_tokenizer},
        generation=bundle_pb2.Generation(
            encoder="encoder",
            step="step",
            token_input="token",
            scores_output="scores",
            states=[bundle_pb2.State(input="state", output="next_state", encoder_output="initial_state", batch_axis=0)],
            begin_token=config.begin,
            end_token=config.end,
            tokenizer=TARGET_TOKENIZER,
            max_new_tokens=config.max_new_tokens,
            target_tensor="target_ids",
        ),
    )
