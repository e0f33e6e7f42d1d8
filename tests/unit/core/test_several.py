"""Several names where one text alone would be taken as its letters."""

from __future__ import annotations

import pytest

from counterfoil.core.several import several
from counterfoil.errors import InvalidForm


@pytest.mark.parametrize("given", [["a", "b"], ("a", "b"), iter(["a", "b"]), {"a": 1, "b": 2}])
def test_names_are_taken_from_any_iterable_in_its_order(given):
    assert several(given, "types") == ("a", "b")


@pytest.mark.parametrize("given", ["effect.intended", "", b"a", 5, None, [1], ["a", None]])
def test_what_is_not_several_names_is_refused_by_the_name_of_the_argument(given):
    with pytest.raises(InvalidForm) as refused:
        several(given, "types")
    assert refused.value.fields["argument"] == "types"
