"""``counterfoil.toml``: found from below, checked, and its module imported so that tools are declared."""

from __future__ import annotations

import sys

import pytest

from counterfoil.client.config import Config, find_config, load_app, read_config
from counterfoil.errors import ConfigInvalid, FileMissing


def write(tmp_path, text):
    path = tmp_path / "counterfoil.toml"
    path.write_text(text)
    return path


def test_the_nearest_file_above_is_taken(tmp_path):
    path = write(tmp_path, 'ledger = "data/ledger"\napp = "shop.agents"\ntenant = "acme"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_config(below) == Config(path, str(tmp_path / "data/ledger"), "shop.agents", "acme")


def test_without_a_file_everything_is_default(tmp_path):
    assert find_config(tmp_path).path is None or not find_config(tmp_path).path.is_relative_to(tmp_path)
    assert load_app(Config()) is None


def test_a_path_from_the_root_stays_as_it_is(tmp_path):
    assert read_config(write(tmp_path, 'ledger = "/srv/ledger"')).ledger == "/srv/ledger"


def test_the_app_is_imported_from_beside_the_file(tmp_path, monkeypatch):
    (tmp_path / "tools_of_a_test.py").write_text("LOADED = True\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        assert load_app(read_config(write(tmp_path, 'app = "tools_of_a_test"'))) == "tools_of_a_test"
        assert sys.modules["tools_of_a_test"].LOADED
    finally:
        sys.modules.pop("tools_of_a_test", None)


@pytest.mark.parametrize("text", ["ledger = ", "ledger = 5", 'app = ""', 'aap = "shop"', "[ledger]\nx = 1"])
def test_what_is_wrong_with_the_file_is_named(tmp_path, text):
    with pytest.raises(ConfigInvalid, match=r"counterfoil\.toml"):
        read_config(write(tmp_path, text))


def test_a_file_of_another_encoding_is_refused(tmp_path):
    path = tmp_path / "counterfoil.toml"
    path.write_bytes(b'app = "\xff"')
    with pytest.raises(ConfigInvalid):
        read_config(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileMissing):
        read_config(tmp_path / "counterfoil.toml")


class Speechless(BaseException):
    """An error whose text cannot be had."""

    def __str__(self):
        raise ValueError


RAISED = {
    "import sys; sys.exit()": "SystemExit",
    "import sys; sys.exit(3)": "SystemExit: 3",
    "raise BaseException('odd')": "BaseException: odd",
    "raise GeneratorExit": "GeneratorExit",
    "from tests.unit.client.test_config import Speechless\nraise Speechless": "Speechless",
    "x = (": "SyntaxError",
}


@pytest.mark.parametrize("source", RAISED)
def test_whatever_an_app_raises_when_it_is_imported_is_named_with_its_module(tmp_path, monkeypatch, source):
    (tmp_path / "raising_of_a_test.py").write_text(source + "\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigInvalid) as refused:
        load_app(read_config(write(tmp_path, 'app = "raising_of_a_test"')))
    assert "raising_of_a_test" in refused.value.message
    assert RAISED[source] in refused.value.message


def test_an_app_that_ends_the_program_gets_the_advice_that_it_needs(tmp_path, monkeypatch):
    (tmp_path / "ending_of_a_test.py").write_text("raise SystemExit(0)\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigInvalid) as refused:
        load_app(read_config(write(tmp_path, 'app = "ending_of_a_test"')))
    assert "__main__" in refused.value.hint


def test_ctrl_c_while_an_app_is_imported_stays_itself(tmp_path, monkeypatch):
    (tmp_path / "interrupted_of_a_test.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(KeyboardInterrupt):
        load_app(read_config(write(tmp_path, 'app = "interrupted_of_a_test"')))


def test_a_member_that_is_no_text_is_told_what_it_must_be(tmp_path):
    with pytest.raises(ConfigInvalid, match=r"app in .* must be text"):
        read_config(write(tmp_path, "app = 5"))


def test_an_app_that_cannot_be_imported_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_of_a_test.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigInvalid, match="ZeroDivisionError"):
        load_app(read_config(write(tmp_path, 'app = "broken_of_a_test"')))
    with pytest.raises(ConfigInvalid, match="no_such_module"):
        load_app(read_config(write(tmp_path, 'app = "no_such_module_anywhere"')))
