"""``counterfoil artifacts``: listing, getting and checking what lies outside the events, also where it was damaged."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import counterfoil
from counterfoil.cli.verbs.artifacts import safe_name
from tests.command import Shell

HOSTILE = "../../etc/\x1b[31mcron.d\n; rm -rf ~"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch) -> Shell:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Shell(tmp_path)


@pytest.fixture
def filled(shell):
    with counterfoil.open(shell.place, clock=shell.clock) as ledger:
        with ledger.run("a", conversation="case-1") as run:
            run.artifact(b"%PDF letter", name="letter.pdf", media_type="application/pdf")
            run.step("large", lambda: "x" * 300_000)
        with ledger.run("a", conversation="case-2") as run:
            run.artifact(b"hostile", name=HOSTILE, classification="secret")
            run.artifact(b"for all", name="notice.txt", classification="public")
    return shell


def here():
    """What lies in the directory that commands run in."""
    return sorted(path.name for path in Path().iterdir())


def named(shell, *words):
    """Objects by the names of their artifacts."""
    listed = shell("artifacts", "ls", "--json", "--spilled", *words).lines
    return {row["name"] or row["kind"]: row["sha256"] for row in listed}


def damage(shell, sha256, how):
    path = shell.place / "artifacts" / sha256[:2] / sha256
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"?")


# ---- listing ---------------------------------------------------------------------------------------------------------


def test_artifacts_are_listed_with_name_class_and_size(filled):
    out = filled("artifacts", "ls").out
    (line,) = [line for line in out.splitlines() if "letter.pdf" in line]
    for part in ("confidential", "11", "case-1", named(filled)["letter.pdf"][:12]):
        assert part in line
    assert "spilled" not in out


def test_values_that_spilled_are_listed_when_asked_for(filled):
    assert "a spilled value" in filled("artifacts", "ls", "--spilled").out


def test_a_list_is_narrowed_and_paged(filled):
    assert set(named(filled, "--conversation", "case-1")) == {"letter.pdf", "spill"}
    first = filled("artifacts", "ls", "--json", "--limit", "2").lines
    last = first[-1]
    rest = filled("artifacts", "ls", "--json", "--after", last["stream_id"], last["sha256"]).lines
    assert len(first + rest) == len({row["sha256"] for row in first + rest}) == 3
    assert f"--after {last['stream_id']} {last['sha256']}" in filled("artifacts", "ls", "--limit", "2").out


def test_an_empty_list_says_how_one_comes_about(shell):
    counterfoil.open(shell.place).close()
    assert "run.artifact" in shell("artifacts", "ls").out


def test_a_hostile_name_is_shown_with_marks(filled):
    out = filled("artifacts", "ls").out
    assert "\x1b[31m" not in out
    assert all(character.isprintable() or character == "\n" for character in out)


def test_show_draws_an_artifact_in_one_line(filled):
    shown = filled("show", "case-1").out
    (line,) = [line for line in shown.splitlines() if "letter.pdf" in line]
    for part in ("▤", "confidential", "11 bytes", named(filled)["letter.pdf"][:12]):
        assert part in line
    assert "x" * 100 not in shown


def test_showing_an_event_exactly_reads_no_artifact(filled):
    damage(filled, named(filled)["spill"], "gone")
    with counterfoil.open(filled.place, read_only=True) as ledger:
        (step,) = ledger.events("case-1", types=["step.finished"])
    done = filled("show", step.event_id, "--json")
    assert done.code == 0
    assert done.json["content"]["result"]["$spilled"]["bytes"] == 300_002
    assert named(filled)["spill"] in filled("show", step.event_id).out


# ---- getting ---------------------------------------------------------------------------------------------------------


def test_an_artifact_is_written_under_its_recorded_name(filled):
    done = filled("artifacts", "get", named(filled)["letter.pdf"][:8])
    assert done.code == 0
    assert Path("letter.pdf").read_bytes() == b"%PDF letter"
    assert stat.S_IMODE(Path("letter.pdf").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "out, said",
    [
        ("nope/letter.pdf", "there is no directory nope for letter.pdf"),
        ("file/letter.pdf", "there is no directory file for letter.pdf"),
        ("folder", "folder is a directory"),
        ("link", "link is a directory"),
    ],
)
def test_a_place_that_no_file_can_have_is_named(filled, out, said):
    Path("folder").mkdir()
    Path("link").symlink_to("folder")
    Path("file").touch()
    done = filled("artifacts", "get", named(filled)["letter.pdf"], "--out", out)
    assert done.code == 65
    assert said in done.err
    assert ".part" not in done.err
    assert here() == ["file", "folder", "link"]


def test_a_file_that_exists_is_not_overwritten(filled):
    Path("letter.pdf").write_text("mine")
    done = filled("artifacts", "get", named(filled)["letter.pdf"])
    assert done.code == 65
    assert Path("letter.pdf").read_text() == "mine"
    assert here() == ["letter.pdf"]


def test_a_link_that_leads_nowhere_is_not_followed(filled, tmp_path):
    Path("letter.pdf").symlink_to(tmp_path / "elsewhere")
    assert filled("artifacts", "get", named(filled)["letter.pdf"]).code == 65
    assert not (tmp_path / "elsewhere").exists()


def test_a_hostile_name_stays_in_this_directory_and_is_harmless(filled):
    sha256 = named(filled)[HOSTILE]
    assert filled("artifacts", "get", sha256).code == 0
    (made,) = here()
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert Path(made).read_bytes() == b"hostile"


@pytest.mark.parametrize(
    "name",
    [None, "", "..", ".", "/", "a/..", "-", "--", ".-.", "\x00", "\u202egnp.exe", "C:\\x", "~", "." * 300],
)
def test_a_recorded_name_becomes_a_plain_file_name(name):
    made = safe_name(name, "ab" * 32)
    assert made == Path(made).name
    assert made
    assert made[0] not in ".-"
    assert len(made) <= 120
    assert made.isascii()


def test_bytes_go_to_standard_output_when_asked(filled):
    assert filled("artifacts", "get", named(filled)["letter.pdf"], "--out", "-").out == "%PDF letter"


def test_what_was_written_is_told_to_programs(filled):
    sha256 = named(filled)["notice.txt"]
    told = filled("artifacts", "get", sha256, "--out", "n.txt", "--json").json
    assert told == {"sha256": sha256, "class": "public", "bytes": 7, "path": "n.txt"}


@pytest.mark.parametrize("how, code", [("gone", 77), ("changed", 1)])
def test_what_is_gone_or_damaged_is_never_written(filled, how, code):
    sha256 = named(filled)["letter.pdf"]
    damage(filled, sha256, how)
    assert filled("artifacts", "get", sha256).code == code
    assert here() == []


@pytest.mark.parametrize("name, code", [("f" * 64, 66), ("abc", 65), ("../../x", 65), ("g" * 12, 65)])
def test_a_name_of_nothing_is_answered(filled, name, code):
    assert filled("artifacts", "get", name).code == code


# ---- checking --------------------------------------------------------------------------------------------------------


def test_sound_artifacts_are_said_to_be_sound(filled):
    done = filled("artifacts", "verify")
    assert (done.code, "4 artifacts read" in done.out) == (0, True)


@pytest.mark.parametrize("how, word", [("gone", "missing"), ("changed", "damaged")])
def test_unsound_ones_are_named_and_the_exit_code_says_broken(filled, how, word):
    sha256 = named(filled)["letter.pdf"]
    damage(filled, sha256, how)
    done = filled("artifacts", "verify")
    assert done.code == 1
    assert sha256[:12] in done.out
    assert word in done.out
    told = filled("artifacts", "verify", "--json").lines
    assert told[-1] == {"artifacts": 4, "unsound": 1}
    assert told[0]["content_state"] == word
    assert filled("artifacts", "verify", named(filled)["notice.txt"]).code == 0


def test_without_keys_public_ones_alone_can_be_checked(filled):
    (filled.place / "keys.db").rename(filled.directory / "keys.db")
    assert filled("artifacts", "verify").code == 77
    assert filled("verify").code == 0


@pytest.mark.parametrize("how", ["gone", "changed"])
def test_verify_names_them_too(filled, how):
    assert filled("verify").code == 0
    assert "artifacts" in filled("verify").out
    damage(filled, named(filled)["spill"], how)
    done = filled("verify")
    assert done.code == 1
    assert named(filled)["spill"][:12] in done.out


def test_a_configuration_may_say_where_artifacts_lie(shell):
    elsewhere = shell.directory / "elsewhere"
    with (
        counterfoil.open(shell.place, artifacts=elsewhere) as ledger,
        ledger.run("a", conversation="c") as run,
    ):
        run.artifact(b"there", name="t")
    assert not (shell.place / "artifacts").exists()
    assert shell("verify").code == 1
    file = shell.directory / "counterfoil.toml"
    file.write_text('ledger = "shop"\nartifacts = "elsewhere"\n')
    assert shell("verify", ledger=False).code == 0
