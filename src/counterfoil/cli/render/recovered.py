"""What a recovery found, did and left, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from counterfoil.cli.render.card import command_lines
from counterfoil.cli.render.cells import text
from counterfoil.cli.render.children_rows import child_report_lines
from counterfoil.cli.render.line import Line, Span, Style, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import plural
from counterfoil.runtime.recover import EffectReport, RecoveryReport

WAITING_SHOWN_MAX: Final = 20

_DONE: Final[Mapping[str, tuple[str, Style, str]]] = {
    "decided": ("✓", "good", "decided"),
    "nothing": ("·", "quiet", "nothing to do"),
    "review": ("◆?", "doubt_bar", "waits for a person"),
    "left": ("◆?", "doubt_bar", "still in doubt"),
    "retrying": ("↻", "wait", "not done, tried again later"),
    "given_up": ("×", "quiet", "not done, not tried again"),
    "live": ("…", "wait", "a worker is at it"),
}


def recovered_lines(report: RecoveryReport, width: int, option: str, app: str | None) -> list[Line]:
    """What needs a person first, then what was decided, then the runs to enter again."""
    lines: list[Line] = []
    for effect in sorted(report.effects, key=lambda effect: effect.done in ("decided", "nothing")):
        lines += effect_lines(effect, width, option)
    for effect in report.retries:
        lines += effect_lines(effect, width, option)
    lines += _waiting(report, width, option)
    if not report.effects and not report.waiting and not report.retries:
        lines.append(Line(Span("✓ ", "good"), "no effect is in doubt: nothing to recover"))
    for child in report.children:
        lines += child_report_lines(child, width)
    lines += _missing(report, width, app)
    lines += _runs(report, option)
    if report.undecided:
        said = f"{plural(len(report.undecided), 'effect')} undecided · exit code 3"
        lines.append(Line(Span(said, "quiet")))
    return lines


def _waiting(report: RecoveryReport, width: int, option: str) -> Iterator[Line]:
    """What waits in review since before this recovery, a few of it in full."""
    for effect in report.waiting[:WAITING_SHOWN_MAX]:
        yield from effect_lines(effect, width, option)
    more = len(report.waiting) - WAITING_SHOWN_MAX
    if more > 0:
        yield Line(
            f"    and {plural(more, 'more effect')} in review: ",
            Span(f"counterfoil review ls{option}", "quiet"),
        )


def effect_lines(effect: EffectReport, width: int, option: str) -> Iterator[Line]:
    """What became of one effect."""
    done = "retrying" if effect.done == "left" and effect.state == "failed" else effect.done
    glyph, style, word = _DONE.get(done, ("·", "plain", marked(done)))
    outcome = f": {effect.state}" if effect.done == "decided" else ""
    padded = f" {glyph} {word} " if style == "doubt_bar" else f"{glyph} {word}{outcome}"
    yield Line(
        Span(padded, style),
        f"  {marked(effect.tool)} {marked(effect.tool_version)}  ",
        Span(effect.effect_id, "quiet"),
    )
    for piece in wrap(marked(effect.why), width - 4) if effect.why else []:
        yield Line("    ", piece)
    if effect.done == "review":
        yield from command_lines(
            f"counterfoil review show rev_{effect.effect_id.partition('_')[2]}{option}", width
        )


def _missing(report: RecoveryReport, width: int, app: str | None) -> Iterator[Line]:
    if not report.tools_missing:
        return
    tools = ", ".join(marked(tool) for tool in report.tools_missing)
    loaded = f"{marked(app)} does not declare" if app else "no module was named that declares"
    said = f'{loaded} {tools}: name it as app = "package.module" in counterfoil.toml, or with --app'
    for number, piece in enumerate(wrap(said, width - 2)):
        yield Line(Span("→ " if number == 0 else "  ", "quiet"), piece)


def _runs(report: RecoveryReport, option: str) -> Iterator[Line]:
    if report.open_runs:
        yield Line(
            f"{plural(len(report.open_runs), 'run')} left by their worker; running their code again resumes them:"
        )
    for row in report.open_runs:
        yield Line(
            f"    {text(row, 'agent')}  ", Span(f"counterfoil show {text(row, 'run_id')}{option}", "quiet")
        )
