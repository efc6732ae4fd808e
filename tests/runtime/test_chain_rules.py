"""Acceptance rules over chains, on a toy vocabulary on which every distribution is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mulo_runtime.acceptance.chain_rule import ChainRule
from mulo_runtime.acceptance.cool_sd import cool_sd
from mulo_runtime.acceptance.exact import Exact
from mulo_runtime.acceptance.grouped import Grouped
from mulo_runtime.acceptance.lantern import Lantern
from mulo_runtime.acceptance.lantern_plus import LanternPlus, LanternPlusGeneral
from mulo_runtime.acceptance.linear_rsd import linear_rsd
from mulo_runtime.acceptance.nearby_mass import nearby_mass
from mulo_runtime.acceptance.uniform_rsd import uniform_rsd
from mulo_runtime.acceptance.weighted_ratio import WeightedRatio
from scipy.stats import chisquare
from toy_distributions import (
    Toy,
    neighbours,
    output_distribution,
    random_distributions,
    simulate,
    target_distribution,
    total_variation,
)

V, L = 5, 2
NEAR = neighbours(V, 2)
RULES: dict[str, ChainRule] = {
    "exact": Exact(),
    "cool-sd": cool_sd(L, 2.0, 0.7),
    "uniform-rsd": uniform_rsd(L, 1.1),
    "linear-rsd": linear_rsd(L, 1.1, 8),
    "lantern": Lantern(NEAR, 0.3),
    "lantern++": LanternPlus(NEAR, 2.0),
    "lantern++ general": LanternPlusGeneral(NEAR, 2.0),
    "gsd": Grouped(NEAR, 3, 0.15),
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


class TestExactSampling:
    def test_the_output_is_the_targets_distribution(self) -> None:
        toy = Toy(V, L)
        assert total_variation(output_distribution(Exact(), toy), target_distribution(toy)) < 1e-6

    @pytest.mark.parametrize("apart", [0.0, 0.5, 1.0])
    def test_drawn_tokens_pass_a_chi_square(self, apart: float) -> None:
        toy = Toy(8, 2, seed=3, apart=apart)
        first, _ = simulate(Exact(), toy, 8_000)
        expected = 8_000 * toy.target([]).astype(np.float64)
        assert chisquare(np.bincount(first, minlength=8), expected * 8_000 / expected.sum()).pvalue > 1e-3

    def test_the_chi_square_would_see_a_relaxed_rule(self) -> None:
        toy = Toy(8, 2, seed=3)
        first, _ = simulate(uniform_rsd(2, 3.0), toy, 8_000)
        expected = 8_000 * toy.target([]).astype(np.float64)
        assert chisquare(np.bincount(first, minlength=8), expected * 8_000 / expected.sum()).pvalue < 1e-6


class TestCoolSD:
    def test_weights_are_those_of_the_paper(self) -> None:
        rule = cool_sd(5, 1.1, 0.7)
        assert rule.weights == pytest.approx([2.855, 1.418, 0.704, 0.350, 0.174], abs=1e-3)
        assert cool_sd(5, 2, 0.7).weights == pytest.approx([5.19, 2.58, 1.28, 0.64, 0.32], abs=5e-3)

    @pytest.mark.parametrize("rule", [cool_sd(7, 1.3, 0.4), linear_rsd(7, 1.3, 8), uniform_rsd(7, 1.3)])
    def test_delta_is_the_mean_weight(self, rule: WeightedRatio) -> None:
        assert np.mean(rule.weights) == pytest.approx(1.3)

    @pytest.mark.parametrize("weight", [0.2, 0.35, 0.7, 1.0])
    def test_a_weight_of_at_most_one_is_lossless_with_the_general_residual(self, weight: float) -> None:
        toy = Toy(V, 1, apart=1.0)
        rule = WeightedRatio([weight])
        assert total_variation(output_distribution(rule, toy), target_distribution(toy)) < 1e-6

    @pytest.mark.parametrize("weight", [0.35, 0.7])
    def test_it_is_not_with_the_vanilla_residual(self, weight: float) -> None:
        toy = Toy(V, 1, apart=1.0)
        rule = WeightedRatio([weight], "vanilla")
        assert total_variation(output_distribution(rule, toy), target_distribution(toy)) > 0.02

    @given(st.integers(0, 2**32), st.floats(1.0, 8.0))
    def test_both_residuals_agree_where_the_weight_is_at_least_one(self, seed: int, weight: float) -> None:
        target, draft = random_distributions(np.random.default_rng(seed), 2, 16)
        general, vanilla = np.empty((2, 16), np.float32)
        WeightedRatio([weight]).residual(target, draft, 0, 0, general)
        WeightedRatio([weight], "vanilla").residual(target, draft, 0, 0, vanilla)
        np.testing.assert_allclose(general, vanilla, atol=1e-6)

    @pytest.mark.parametrize("weight", [0.5, 1.0, 1.4, 3.0])
    def test_the_total_variation_of_a_step_is_the_formulas(self, weight: float) -> None:
        """Proposition 3: with G*, half of sum |P - Q f| - sum (1 - f) Q."""
        toy = Toy(V, 1, apart=1.0)
        rule = WeightedRatio([weight])
        target, draft = toy.target([]).astype(np.float64), toy.draft([]).astype(np.float64)
        accepted = np.minimum(1, weight * target / draft) * draft
        formula = (np.abs(target - accepted).sum() - (draft - accepted).sum()) / 2
        measured = total_variation(output_distribution(rule, toy).sum(1), toy.target([]))
        assert measured == pytest.approx(formula, abs=1e-6)

    @pytest.mark.parametrize("rule", [cool_sd(L, 1.5, 0.7), uniform_rsd(L, 2.0)])
    def test_that_of_a_chain_is_within_the_bound(self, rule: WeightedRatio) -> None:
        """Equation 8, whose inner sum is proposition 3's."""
        toy = Toy(V, L, apart=1.0)
        measured = total_variation(output_distribution(rule, toy), target_distribution(toy))
        assert 0 < measured <= _bound(rule, toy) + 1e-6


class TestNearbyMass:
    @given(st.integers(0, 2**32), st.floats(0.01, 1.0), st.integers(1, 15))
    def test_lanterns_mass_respects_its_bound(self, seed: int, delta: float, nearest: int) -> None:
        (target,) = random_distributions(np.random.default_rng(seed), 1, 16)
        for near in neighbours(16, nearest):
            mass = nearby_mass(target, near, delta, reached=True)
            sums = np.cumsum(target[near], dtype=np.float64)
            assert mass <= delta
            assert mass == max([0.0, *sums[sums <= delta]])

    @given(st.integers(0, 2**32), st.floats(0.1, 4.0))
    def test_lantern_plus_keeps_below_its_multiple(self, seed: int, multiple: float) -> None:
        (target,) = random_distributions(np.random.default_rng(seed), 1, 16)
        rule = LanternPlus(neighbours(16, 6), multiple)
        for token in range(16):
            assert target[token] <= rule.relaxed(target, token) < (1 + multiple) * target[token] + 1e-9

    @given(st.integers(0, 2**32), st.floats(0.1, 4.0))
    def test_relaxing_all_tokens_at_once_is_relaxing_each(self, seed: int, multiple: float) -> None:
        (target,) = random_distributions(np.random.default_rng(seed), 1, 16)
        rule = LanternPlusGeneral(neighbours(16, 6), multiple)
        out = np.empty(16, np.float32)
        rule.relax(target, out)
        np.testing.assert_allclose(out, [rule.relaxed(target, token) for token in range(16)], rtol=1e-5)

    def test_the_general_residual_is_nearer_the_target(self) -> None:
        toys = [Toy(V, 1, seed, apart=1.0) for seed in range(8)]
        general, vanilla = (
            sum(total_variation(output_distribution(kind(NEAR, 2.0), toy), target_distribution(toy)) for toy in toys)
            for kind in (LanternPlusGeneral, LanternPlus)
        )
        assert 0 < general < vanilla


class TestGrouped:
    def test_a_group_holds_the_draft_and_near_entries_that_are_about_as_probable(self) -> None:
        target = np.array([0.3, 0.29, 0.05, 0.06, 0.3], np.float32)
        assert sorted(Grouped(neighbours(5, 4), 9, 0.15).group(target, 0).tolist()) == [0, 1, 4]
        assert sorted(Grouped(neighbours(5, 4), 9, 0.5).group(target, 0).tolist()) == [0, 1, 2, 3, 4]

    def test_a_group_of_one_is_exact(self) -> None:
        target, draft = random_distributions(np.random.default_rng(0), 2, V)
        for token in range(V):
            alone = Grouped(NEAR, 1, 0.15).acceptance(target, draft, token, 0)
            assert alone == pytest.approx(Exact().acceptance(target, draft, token, 0))


class TestEveryRule:
    @every_rule
    def test_a_drafter_that_is_the_target_is_always_accepted(self, rule: ChainRule) -> None:
        _, accepted = simulate(rule, Toy(V, L, apart=0.0), 200)
        assert (accepted == L).all()

    @every_rule
    def test_a_residual_is_a_distribution(self, rule: ChainRule) -> None:
        out = np.empty(V, np.float32)
        for seed in range(20):
            target, draft = random_distributions(np.random.default_rng(seed), 2, V)
            for token in range(V):
                rule.residual(target, draft, token, 0, out)
                assert out.min() >= 0
                assert out.sum() == pytest.approx(1, abs=1e-5)

    @every_rule
    def test_the_expected_number_of_accepted_tokens_is_the_formulas(self, rule: ChainRule) -> None:
        """Of arXiv 2601.09212: E[accepted] = sum over i and chains of Q(x_1:i) f_1 .. f_i."""
        toy, rounds = Toy(V, L), 8_000
        expected = sum(_reached(rule, toy, chain) for i in range(1, L + 1) for chain in toy.chains(i))
        _, accepted = simulate(rule, toy, rounds)
        assert accepted.mean() == pytest.approx(expected, abs=4 * accepted.std() / rounds**0.5)

    @every_rule
    def test_a_residual_without_mass_falls_back_to_the_target(self, rule: ChainRule) -> None:
        target = np.array([1, 0, 0, 0, 0], np.float32)
        out = np.empty(V, np.float32)
        rule.residual(target, target, 0, 0, out)
        np.testing.assert_allclose(out, target)


def _reached(rule: ChainRule, toy: Toy, chain: tuple[int, ...]) -> float:
    """The probability that all tokens of `chain` are drafted and accepted."""
    reached = 1.0
    for depth, token in enumerate(chain):
        target, draft = toy.target(chain[:depth]), toy.draft(chain[:depth])
        reached *= float(draft[token]) * rule.acceptance(target, draft, token, depth)
    return reached


def _bound(rule: WeightedRatio, toy: Toy) -> float:
    """Equation 8 of arXiv 2601.09212 with the residual G*."""
    total = 0.0
    for i in range(toy.length):
        for chain in toy.chains(i):
            target, draft = toy.target(chain).astype(np.float64), toy.draft(chain).astype(np.float64)
            accepted = np.minimum(draft, rule.weights[i] * target)
            step = np.abs(target - accepted).sum() - (draft - accepted).sum()
            total += _reached(rule, toy, chain) * step
    return total / 2
