from __future__ import annotations

import pytest
from mulo_engines.buckets import query_bucket, query_buckets


@pytest.mark.parametrize("queries", [1, 2, 5, 256, 1024, 1025, 4096])
def test_the_buckets_are_what_passes_are_rounded_up_to(queries: int) -> None:
    assert query_buckets(queries) == sorted({query_bucket(count) for count in range(1, queries + 1)})
