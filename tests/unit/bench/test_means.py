"""Peers and servers are found or missed in one line, and one that does not wait for its disk is refused."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest

from counterfoil import bench
from counterfoil.bench import beside
from counterfoil.bench import run as bench_run
from counterfoil.bench import server as servers
from counterfoil.bench.beside import Ratio, told
from counterfoil.bench.figures import Figure
from counterfoil.bench.means import NO_CHECKOUT, NO_ENVIRONMENT, Means, Peers, find_peers
from counterfoil.bench.registry import BENCHMARKS, Benchmark
from counterfoil.bench.rounds import Scale, Taken, side_by_side
from counterfoil.bench.server import NO_SERVER, Server, check_durable, server
from counterfoil.errors import InputError
from tools.tree import ROOT

FULL = {"engine": "sqlite", "synchronous": 2, "journal_mode": "wal"}
ON = {"engine": "postgresql", "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}

PEER = """
import json, sys
print(json.dumps({{"peer": "fake 1.0", "durable": {durable}, "works": []}}), flush=True)
for line in sys.stdin:
    told = json.loads(line)
    if told["work"] == "fall":
        sys.exit(3)
    print(json.dumps({{"seconds": told["items"] * 0.5}}), flush=True)
"""


@pytest.fixture
def peers(tmp_path: Path):
    """Peers of this interpreter; each script says of itself what a test wants."""

    def make(**durable) -> Peers:
        scripts = tmp_path / "peers"
        scripts.mkdir()
        for name in (beside.DBOS, beside.LANGGRAPH, beside.EVENTSOURCING):
            (scripts / f"{name}.py").write_text(PEER.format(durable=durable), "utf-8")
        return Peers(scripts, Path(sys.executable))

    return make


# ---- peers -----------------------------------------------------------------------------------------------------------


def test_a_peer_is_timed_by_its_own_clock(peers, tmp_path: Path):
    with peers(**FULL).start(beside.DBOS, tmp_path) as peer:
        taken = side_by_side({"theirs": peer.does("steps")}, rounds=3, items=4)
    assert taken.seconds["theirs"] == [0.5, 0.5, 0.5]


def test_what_a_peer_says_of_its_durability_is_kept(peers, tmp_path: Path):
    found = peers(**FULL)
    with found.start(beside.DBOS, tmp_path):
        pass
    assert found.told == [{"peer": "fake 1.0"} | FULL]


@pytest.mark.parametrize(
    "durable", [FULL | {"synchronous": 1}, ON | {"fsync": "off"}], ids=lambda one: one["engine"]
)
def test_a_peer_that_does_not_wait_for_the_disk_is_not_compared_with(peers, tmp_path: Path, durable):
    with (
        pytest.raises(InputError, match="not durable is not compared"),
        peers(**durable).start(beside.DBOS, tmp_path),
    ):
        pass


def test_a_peer_that_ends_says_so(peers, tmp_path: Path):
    with (
        peers(**FULL).start(beside.DBOS, tmp_path) as peer,
        pytest.raises(InputError, match="with_dbos has ended"),
    ):
        peer.does("fall").work(1)


def test_without_a_checkout_peers_are_not_there(tmp_path: Path):
    assert find_peers(tmp_path) == NO_CHECKOUT


def test_without_their_environment_peers_are_not_there(tmp_path: Path):
    (tmp_path / "benchmarks" / "peers").mkdir(parents=True)
    assert find_peers(tmp_path) == NO_ENVIRONMENT


def test_an_environment_that_was_set_up_is_used(tmp_path: Path):
    scripts, venv = tmp_path / "benchmarks" / "peers", tmp_path / ".benchmarks" / "venv"
    scripts.mkdir(parents=True)
    venv.mkdir(parents=True)
    (venv / "set-up.stamp").touch()
    assert find_peers(tmp_path) == Peers(scripts, venv / "bin" / "python")


def test_every_script_of_a_peer_that_is_started_is_there():
    scripts = ROOT / "benchmarks" / "peers"
    assert all(
        (scripts / f"{name}.py").exists() for name in (beside.DBOS, beside.LANGGRAPH, beside.EVENTSOURCING)
    )


@pytest.mark.parametrize("name", ["eventsourcing", "dbos", "langgraph"])
def test_a_comparison_on_sqlite_alone_needs_no_server(peers, tmp_path: Path, name: str):
    place = tmp_path / "place"
    place.mkdir()
    (benchmark,) = (one for one in BENCHMARKS if one.name == name)
    figures = benchmark.measure(Scale(0.004), place, Means(peers=peers(**FULL)))
    assert figures
    assert not any("postgres" in figure.name for figure in figures)


def test_ratios_come_first_and_hold_the_budgets():
    taken = Taken({"ours": [0.5], "theirs": [2.0]})
    first, *rates = told("library", taken, [Ratio("lone", "one caller", "ours", "theirs", 5)])
    assert (first.name, first.value, first.met) == ("library.lone", 4.0, False)
    assert [figure.budget for figure in rates] == [None, None]


# ---- servers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
def test_a_server_that_does_not_wait_for_the_disk_is_refused(name: str):
    with pytest.raises(InputError, match=f"{name} = off"):
        check_durable(ON | {name: "off"})


def test_a_server_that_waits_for_its_replicas_too_is_durable():
    check_durable(ON | {"synchronous_commit": "remote_apply"})


def test_without_binaries_there_is_no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(servers, "binaries", list)
    with server(None, tmp_path / "server") as found:
        assert found is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.postgres
def test_a_given_server_is_used_and_keeps_no_database(cluster, tmp_path: Path):
    with server(cluster.url(), tmp_path) as found:
        assert found is not None
        address = found.database("x", schema="bench")
        assert "/counterfoil_bench_" in address
        assert address.endswith("?schema=bench")
    assert cluster.sql("SELECT 1 FROM pg_database WHERE datname LIKE 'counterfoil_bench_%'") == []


def test_a_given_server_that_cannot_be_reached_is_refused(tmp_path: Path):
    pytest.importorskip("psycopg")
    with (
        pytest.raises(InputError, match="cannot be used"),
        server("postgresql://nobody@127.0.0.1:1/x", tmp_path),
    ):
        pass


# ---- a run -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One benchmark that needs peers, one that needs a server, one that needs nothing."""

    class Ready(Benchmark):
        def measure(self, scale: Scale, directory: Path, means: Means | None = None) -> list[Figure]:
            return [Figure(f"{self.name}.x", "fine", 1.0, "×")]

    found = (Ready("alone", "t", ""), Ready("pg", "t", "", "server"), Ready("peer", "t", "", "peers"))
    monkeypatch.setattr(bench_run, "BENCHMARKS", found)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(servers, "binaries", list)
    return tmp_path


def test_what_is_not_there_is_said_in_a_line_and_not_measured(one: Path, monkeypatch, capsys):
    monkeypatch.setattr(bench_run, "find_peers", lambda: NO_ENVIRONMENT)
    assert bench.main(peers=True) == 0
    printed = capsys.readouterr().out
    assert "alone: t" in printed
    assert "pg: t" not in printed
    assert " ".join(printed.split()).count("not measured") == 1
    assert "Peers are not compared" in printed


def test_programs_are_told_what_was_not_measured_and_how_durable_the_rest_is(one: Path, monkeypatch, capsys):
    monkeypatch.setattr(bench_run, "find_peers", lambda: Peers(one, one, [{"peer": "fake 1.0"} | FULL]))
    bench.main(peers=True, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["not_measured"] == [NO_SERVER]
    assert told["durable"] == [{"peer": "fake 1.0"} | FULL]
    assert [figure["name"] for figure in told["figures"]] == ["alone.x", "peer.x"]


def test_peers_are_compared_only_when_that_is_asked_for(one: Path, capsys):
    bench.main(as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert [figure["name"] for figure in told["figures"]] == ["alone.x"]


def test_a_run_can_be_saved_for_the_documents(one: Path, tmp_path: Path):
    file = tmp_path / "figures.json"
    bench.main("alone", save=file)
    assert json.loads(file.read_text("utf-8"))["figures"][0]["name"] == "alone.x"


def test_a_server_tells_of_itself(one: Path):
    assert bench_run._durable(Means(server=Server("u", None, {"fsync": "on"}))) == [
        {"peer": "the server", "engine": "postgresql", "fsync": "on"}
    ]
