"""What is chosen on made-up costs: off where reuse does not pay, on where it does."""

from __future__ import annotations

from situ.lab.recep.coverings.choose import Nearest, Trial, choose


def trial(setting: str, processed: int, deciding_s: float, kept: bool = True) -> Trial[str]:
    return Trial(setting, 100, processed, 50, deciding_s, kept)


def test_dear_operators_share_as_much_as_they_can() -> None:
    choice = choose(1e-2, [trial("batches", 40, 1e-4), trial("single", 20, 1e-2)])
    assert choice.setting == "single"
    assert str(choice).startswith("reuse on: single; it processes 20 of 100 selections, 210 ms in all")


def test_cheap_operators_share_in_batches_where_single_selections_do_not_pay() -> None:
    batches, single = trial("batches", 40, 1e-5), trial("single", 20, 1e-2)
    assert choose(1e-6, [single, batches]).setting == "batches"
    assert choose(1e-6, [single]).setting is None


def test_off_where_it_saves_too_little() -> None:
    choice = choose(1e-6, [trial("batches", 90, 1e-6)])
    assert choice.setting is None
    assert choice.reason.startswith("does not pay by 10%: at best, batches; it processes 90 of 100")
    assert str(choice).startswith("reuse off; ")
    assert choose(1e-6, [trial("batches", 90, 1e-6)], least_saving=0.05).setting == "batches"


def test_off_where_nothing_is_covered_or_sampled() -> None:
    assert choose(1.0, [trial("batches", 100, 0.0)]).reason == "no setting covers any selection"
    assert choose(1.0, list[Trial[str]]()).reason == "nothing was sampled"


def test_what_misses_the_thresholds_is_not_chosen() -> None:
    good, poor = trial("good", 60, 0.0), trial("poor", 10, 0.0, kept=False)
    assert choose(1e-3, [good, poor]).setting == "good"
    assert choose(1e-3, [poor]).reason == "none keeps the thresholds"


def test_of_equals_the_first() -> None:
    assert choose(1e-3, [trial("one", 10, 0.0), trial("two", 10, 0.0)]).setting == "one"


def test_neighbours_say_who_they_are() -> None:
    assert str(Nearest(200.0, 2)) == "the 2 nearest within 200 m"
