"""Trees of drafted tokens: their shape, and that verifying one keeps the target's distribution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mulo_runtime.acceptance.chain_rule import ChainRule
from mulo_runtime.acceptance.distributions import draw
from mulo_runtime.acceptance.exact import Exact
from mulo_runtime.acceptance.lantern import Lantern
from mulo_runtime.acceptance.uniform_rsd import uniform_rsd
from mulo_runtime.acceptance.verify_tree import verify_tree
from mulo_runtime.draft_tree import DraftTree, Node, static_nodes
from numpy.typing import NDArray
from scipy.stats import chisquare
from toy_distributions import Toy, neighbours

V, ROUNDS = 6, 6_000
Make = Callable[[Toy, np.random.Generator], tuple[DraftTree, "NDArray[np.float32] | None"]]


def drawn_tree(toy: Toy, rng: np.random.Generator) -> tuple[DraftTree, NDArray[np.float32] | None]:
    """Three children of the root and two of the first, drawn without replacement."""
    tree = DraftTree(rows={-1: 0, 0: 1})
    root = toy.draft([])
    for rank, token in enumerate(without_replacement(root, 3, rng)):
        tree.nodes.append(Node(token, -1, 1, rank, 0.0))
    below = toy.draft([tree.token(0)])
    for rank, token in enumerate(without_replacement(below, 2, rng)):
        tree.nodes.append(Node(token, 0, 2, rank, 0.0))
    return tree, np.stack([root, below])


def chosen_tree(toy: Toy, _: np.random.Generator) -> tuple[DraftTree, NDArray[np.float32] | None]:
    """The three likeliest children of the root and the two likeliest of the first."""
    tree = DraftTree()
    for rank, token in enumerate(np.argsort(-toy.draft([]))[:3]):
        tree.nodes.append(Node(int(token), -1, 1, rank, 0.0))
    for rank, token in enumerate(np.argsort(-toy.draft([tree.token(0)]))[:2]):
        tree.nodes.append(Node(int(token), 0, 2, rank, 0.0))
    return tree, None


def without_replacement(distribution: NDArray[np.float32], count: int, rng: np.random.Generator) -> list[int]:
    left, tokens = distribution.copy(), list[int]()
    for _ in range(count):
        tokens.append(draw(left.copy(), rng.random()))
        left[tokens[-1]] = 0
    return tokens


def drawn_pairs(rule: ChainRule, toy: Toy, make: Make) -> NDArray[np.int64]:
    """Counts of the first two tokens that come out of ROUNDS rounds; [V, V]."""
    rng, scratch, counts = np.random.default_rng(0), np.empty((3, V), np.float32), np.zeros((V, V), np.int64)
    for _ in range(ROUNDS):
        tree, drawn = make(toy, rng)
        prefixes = [[], *([*_path(tree, node)] for node in range(len(tree.nodes)))]
        target = np.stack([toy.target(prefix) for prefix in prefixes])
        path = verify_tree(
            rule, tree, drawn, target, rng.random((3, 3), np.float32), rng.random(3, np.float32), scratch
        )
        tokens = [*map(tree.token, path.nodes), path.next_token]
        if len(tokens) == 1:
            tokens.append(draw(toy.target(tokens).copy(), rng.random()))
        counts[tokens[0], tokens[1]] += 1
    return counts


def _path(tree: DraftTree, node: int) -> list[int]:
    parent = tree.nodes[node].parent
    return [*([] if parent < 0 else _path(tree, parent)), tree.token(node)]


def p_value(counts: NDArray[np.int64], toy: Toy) -> float:
    """Of a chi-square test of counts against the target's distribution of two tokens."""
    expected = np.stack([toy.target([]).astype(np.float64)[token] * toy.target([token]) for token in range(V)])
    return float(chisquare(counts.ravel(), ROUNDS * expected.ravel() / expected.sum()).pvalue)


@pytest.mark.parametrize("make", [drawn_tree, chosen_tree])
@pytest.mark.parametrize("apart", [0.0, 0.5, 1.0])
def test_exact_verification_of_a_tree_keeps_the_targets_distribution(make: Make, apart: float) -> None:
    toy = Toy(V, 2, seed=1, apart=apart)
    assert p_value(drawn_pairs(Exact(), toy, make), toy) > 1e-3


@pytest.mark.parametrize("rule", [uniform_rsd(3, 3.0), Lantern(neighbours(V, 3), 0.4)], ids=["uniform-rsd", "lantern"])
def test_the_chi_square_would_see_a_relaxed_rule(rule: ChainRule) -> None:
    toy = Toy(V, 2, seed=1)
    assert p_value(drawn_pairs(rule, toy, drawn_tree), toy) < 1e-6


def test_the_static_tree_is_the_published_one() -> None:
    assert [static_nodes(depth) for depth in range(1, 6)] == [4, 12, 20, 23, 25]


def test_a_node_sees_itself_and_what_it_follows() -> None:
    tree, _ = chosen_tree(Toy(V, 2), np.random.default_rng(0))
    expected = np.eye(5, dtype=np.bool_)
    expected[3:, 0] = True
    np.testing.assert_array_equal(tree.branches(), expected)
    np.testing.assert_array_equal(tree.visible([3, 4], [0, 3, 4]), [[True, True, False], [True, False, True]])


def test_the_best_nodes_keep_their_parents_and_their_rows() -> None:
    nodes = [Node(7, -1, 1, 0, -1.0), Node(8, -1, 1, 1, -0.1), Node(9, 1, 2, 0, -0.5), Node(5, 0, 2, 0, -3.0)]
    best = DraftTree(nodes, {-1: 0, 0: 1, 1: 2}).best(2)
    assert [(node.token, node.parent) for node in best.nodes] == [(8, -1), (9, 0)]
    assert best.rows == {-1: 0, 0: 2}
