"""The documents agree with the code, and the check that says so finds what it is there for."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tools import docs, markdown


def test_the_documents_agree_with_the_code():
    assert docs.check() == []


LINKS = {
    "a file that is not there": ("[a](missing.md)", ["the link to missing.md leads nowhere"]),
    "an image that is not there": ("![a](missing.png)", ["the link to missing.png leads nowhere"]),
    "a reference that leads nowhere": ("[a]: missing.md", ["the link to missing.md leads nowhere"]),
    "a heading that is not there": ("[a](other.md#three)", ["other.md has no heading for #three"]),
    "a heading of this page": ("# One\n\n[a](#one)", []),
    "the second heading of a name": ("[a](other.md#two-1)", []),
    "a folder": ("[a](.)", []),
    "a link with a scheme": ("[a](mailto:nobody@example.org)", []),
    "a link in a code span": ("`[a](missing.md)`", []),
    "a link in a fenced block": ("```text\n[a](missing.md)\n```", []),
}


@pytest.mark.parametrize("case", LINKS)
def test_links_to(case: str, tmp_path: Path):
    text, expected = LINKS[case]
    (tmp_path / "other.md").write_text("# Two\n\n## Two\n", "utf-8")
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    assert [what for _, what in docs.dead_links(page, text)] == expected


@click.group()
@click.option("--ledger")
def sample() -> None:
    pass


@sample.group()
def review() -> None:
    pass


@review.command()
@click.argument("review_id")
@click.option("--outcome")
@click.option("--json", "as_json", is_flag=True)
def settle(review_id: str, outcome: str, as_json: bool) -> None:
    pass


COMMANDS = {
    "review settle rev_1 --outcome succeeded --json": None,
    "--ledger DIR review settle rev_1": None,
    "review settle rev_1 --outcome=succeeded": None,
    "review --help": None,
    "review settle rev_1 -- --odd": None,
    "explode": "'sample' has no command 'explode'",
    "review explode": "'review' has no command 'explode'",
    "review settle rev_1 --because x": "'settle' has no option --because",
    "--because x review": "'sample' has no option --because",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_that_is_shown_has_to_exist(words: str):
    assert docs.cli_fault(sample, words.split()) == COMMANDS[words]


def test_a_verb_that_is_shown_has_to_exist():
    text = "```console\n$ ./run test tests/unit  # some\n$ ./run explode\n```\n"
    assert list(docs.wrong_commands(text)) == [(3, "./run has no verb 'explode'")]


def test_what_other_programs_print_is_not_judged():
    assert list(docs.wrong_commands("```console\n$ ls ./run explode\n./run explode\n```\n")) == []


def test_blocks_have_language_line_and_text():
    text = "a\n\n````python title\nx = '''\n```\n'''\n````\n~~~\ny\n~~~\n"
    first, second = markdown.blocks(text)
    assert (first.language, first.line, first.text) == ("python", 4, "x = '''\n```\n'''\n")
    assert (second.language, second.text) == ("", "y\n")
