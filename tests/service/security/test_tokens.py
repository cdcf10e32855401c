"""The file of tokens: what it may say, and that what is wrong is named without being told."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight import cli
from limelight_service.errors import UnauthenticatedError
from limelight_service.security.caller import ANYBODY, Globs
from limelight_service.security.tokens import ADMIN_METHODS, METHODS, TokensError, entry, new_token, read_tokens

DIGEST = hashlib.sha256(b"secret").hexdigest()


def file(lines: str, name: str = "site") -> bytes:
    return f'[tokens.{name}]\nsha256 = "{DIGEST}"\n{lines}\n'.encode()


def test_a_token_is_found_by_its_hash_with_what_it_may_do() -> None:
    text = 'methods = ["Predict", "List*"]\nmodels = "news-*"\nrows_per_second = 2.5\nrows_in_flight = 8'
    caller = read_tokens(file(text)).caller("secret", 0.0)
    assert caller.name == "site"
    assert [each for each in ("Predict", "Attend", "ListModels") if each in caller.methods] == ["Predict", "ListModels"]
    assert caller.sees("news-en") and not caller.sees("New") and not caller.sees("")
    assert (caller.quota.rows_per_second, caller.quota.rows_in_flight) == (2.5, 8)
    with pytest.raises(UnauthenticatedError):
        read_tokens(file(text)).caller("Secret", 0.0)


def test_a_token_may_load_and_unload_models_only_where_its_methods_say_so() -> None:
    plain = read_tokens(file("")).caller("secret", 0.0)
    assert "Predict" in plain.methods and "LoadModel" not in plain.methods and "UnloadModel" not in plain.methods
    loader = read_tokens(file('methods = ["LoadModel"]')).caller("secret", 0.0)
    assert [each for each in (*METHODS, *ADMIN_METHODS) if each in loader.methods] == ["LoadModel"]


def test_two_hashes_are_one_name_while_a_token_is_exchanged() -> None:
    other = hashlib.sha256(b"newer").hexdigest()
    tokens = read_tokens(f'[tokens.site]\nsha256 = ["{DIGEST}", "{other}"]\n'.encode())
    assert tokens.caller("secret", 0.0) == tokens.caller("newer", 0.0)


@pytest.mark.parametrize(
    ("written", "until"),
    [
        ("2030-01-01", datetime(2030, 1, 1, tzinfo=UTC)),
        ("2030-01-01T12:30:00+02:00", datetime(2030, 1, 1, 10, 30, tzinfo=UTC)),
    ],
)
def test_a_token_expires_at_its_second(written: str, until: datetime) -> None:
    tokens = read_tokens(file(f"expires = {written}"))
    assert tokens.caller("secret", until.timestamp() - 0.001).name == "site"
    with pytest.raises(UnauthenticatedError, match="expired"):
        tokens.caller("secret", until.timestamp())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "it is not TOML"),
        (b"tokens = 1", "tokens is no table"),
        (b"token = 1", "'token' means nothing here"),
        (b"[tokens]\nsite = 1", "site is no table"),
        (b"[tokens.site]", "site: sha256 is a text, or a list"),
        (b"[tokens.site]\nsha256 = []", "site: sha256 is a text, or a list"),
        (b'[tokens.site]\nsha256 = "secret"', "site: sha256 is not one"),
        (file("", '"a b"'), "'a b' is no name"),
        (file("rows = 1"), "site has no field 'rows'"),
        (file('methods = ["predict"]'), "site: methods: 'predict' is none of Predict, Attend"),
        (file("models = [1]"), "site: models is a text"),
        (file("rows_per_second = 0"), "site: rows_per_second is a number above 0"),
        (file("rows_per_second = inf"), "site: rows_per_second is a number above 0"),
        (file("rows_per_second = nan"), "site: rows_per_second is a number above 0"),
        (file("rows_in_flight = true"), "site: rows_in_flight is a number above 0"),
        (file("rows_in_flight = 1.5"), "site: rows_in_flight is 1.5, which is not a whole number"),
        (file('expires = "2030-01-01"'), "site: expires is a day or a time"),
        (file("expires = 2030-01-01T00:00:00"), "site: expires has no time zone"),
        (file("", "a") + file("", "b"), "a and b have the same sha256"),
    ],
)
def test_a_file_that_is_wrong_is_named_and_quotes_nothing_that_could_be_a_secret(data: bytes, message: str) -> None:
    with pytest.raises(TokensError) as refused:
        read_tokens(data)
    assert message in refused.value.message
    assert "secret" not in refused.value.message and DIGEST not in refused.value.message


@given(
    models=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=3),
    rate=st.floats(1e-3, 1e6),
)
def test_what_is_written_for_the_file_reads_back(models: list[str], rate: float) -> None:
    token = new_token()
    caller = read_tokens(entry("a.b-c", token, {"models": models, "rows_per_second": rate}).encode()).caller(token, 0.0)
    assert (caller.name, caller.models, caller.quota.rows_per_second) == ("a.b-c", Globs(tuple(models)), rate)


def test_the_command_prints_a_token_and_the_lines_that_let_it_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["token", "new", "site", "--method", "Predict", "--rows-in-flight", "4"]) == 0
    head, lines = capsys.readouterr().out.split("For the file of tokens:")
    token = next(word for word in head.split() if word.startswith("limelight_"))
    assert token not in lines
    caller = read_tokens(lines.encode()).caller(token, 0.0)
    assert (caller.name, caller.quota.rows_in_flight, "Attend" in caller.methods) == ("site", 4, False)
    assert cli.main(["token", "new", "site", "--expires", "soon"]) == 2
    assert "no day such as" in capsys.readouterr().err


def test_a_token_can_go_to_a_file_for_its_owner_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "token"
    assert cli.main(["token", "new", "site", "--out", str(path)]) == 0
    token = path.read_text().strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_tokens(capsys.readouterr().out.encode()).caller(token, 0.0).name == "site"
    assert cli.main(["token", "new", "site", "--out", str(path)]) == 1
    assert path.read_text().strip() == token


def test_two_tokens_differ() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100 and all(len(each) == len("limelight_") + 43 for each in made)


def test_where_no_tokens_are_asked_for_everybody_may_do_everything() -> None:
    ANYBODY.check_method("Predict")
    assert ANYBODY.sees("any") and ANYBODY.quota.rows_per_second == 0


def test_a_name_of_many_stars_costs_a_pattern_nothing(tmp_path: Path) -> None:
    assert "a" * 10**7 not in Globs(("*a*a*a*a*b",))


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n"])
def test_an_empty_file_is_a_bad_one_and_a_table_without_tokens_says_nobody(text: str) -> None:
    with pytest.raises(TokensError, match="it has no token"):
        read_tokens(text.encode())
    assert read_tokens(b"[tokens]\n").names == frozenset()
