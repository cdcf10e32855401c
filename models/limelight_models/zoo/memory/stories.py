"""What models share that answer questions about stories: the limits of a story, its inputs, the recipe."""

from functools import partial

from limelight_models.cards.language import DocumentInput, TextInput, Tokenizer
from limelight_models.data import moves
from limelight_models.data.folder import STORIES
from limelight_models.recipes import TextSizes, classifying_texts


class StoryConfig(TextSizes):
    """Limits. max_sentences: of a story, which is refused where it is longer; max_words: of a sentence."""

    max_sentences: int = 100
    max_words: int = 16

    def inputs(self, tokenizer: Tokenizer) -> tuple[DocumentInput, TextInput]:
        """The story and the question."""
        story = DocumentInput(
            summary="What was told, a sentence a fact.",
            tokenizer=tokenizer,
            max_sentences=self.max_sentences,
            max_words=self.max_words,
        )
        question = TextInput(
            name="question",
            summary="What is asked.",
            tokenizer=tokenizer,
            max_tokens=self.max_words,
            prefix="question",
            dimension="question",
        )
        return story, question


# The recipe of a network that answers by a class.
answering = partial(classifying_texts, builtin=moves.dataset, data=STORIES)
