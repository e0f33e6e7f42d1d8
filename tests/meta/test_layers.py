"""Every package has its layer and its line on the map; the import rules themselves are kept by import-linter."""

from __future__ import annotations

from tools import pages, tree


def layer_names() -> dict[str, bool]:
    """Every name in the layers; true when it stands in parentheses, which says that it does not exist yet."""
    names = [name for layer in pages.layers() for name in layer]
    return {name.strip("()"): name.startswith("(") for name in names}


def test_every_package_has_a_layer():
    assert set(tree.children()) <= set(layer_names())


def test_only_packages_that_do_not_exist_stand_in_parentheses():
    exists = {name: name in tree.children() for name in layer_names()}
    assert {name: not optional for name, optional in layer_names().items()} == exists


def test_every_package_has_one_line_on_the_map():
    text = (tree.ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    shown = text.partition(pages.MAP_START)[2].partition(pages.MAP_END)[0].split("\n- ")
    names = [line.partition(":")[0].strip("\n-` ") for line in shown if line.strip()]
    assert sorted(names) == sorted(tree.children())
