"""Admission: what it takes, what it refuses and in which words, what comes back."""

from __future__ import annotations

import pytest

from accounts.callers import Quota
from common.errors import RateLimited
from tests.quotas.tools import LEASE_MS, Books, a_caller

DAY = "d20422"  # 30 November 2025
MONTH = "m202511"


def states(books: Books) -> list[tuple[str, int, int]]:
    """The limits as they were told last."""
    return [(standing.name, standing.settled, standing.reserved) for standing in books.shown]


async def test_it_works(books: Books) -> None:
    caller = a_caller(Quota(rpm=10, itpm=1000, otpm=500, max_streams=3, budget_tokens=10_000))
    headers = await books.admit(caller, input_tokens=100, max_tokens=50)
    assert headers == {
        "anthropic-ratelimit-requests-limit": "10",
        "anthropic-ratelimit-requests-remaining": "9",
        "anthropic-ratelimit-requests-reset": "2025-11-30T23:50:06Z",
        "anthropic-ratelimit-input-tokens-limit": "1000",
        "anthropic-ratelimit-input-tokens-remaining": "900",
        "anthropic-ratelimit-input-tokens-reset": "2025-11-30T23:50:06Z",
        "anthropic-ratelimit-output-tokens-limit": "500",
        "anthropic-ratelimit-output-tokens-remaining": "450",
        "anthropic-ratelimit-output-tokens-reset": "2025-11-30T23:50:06Z",
        "anthropic-ratelimit-tokens-limit": "10000",
        "anthropic-ratelimit-tokens-remaining": "9850",
    }
    assert books.reserved() == {"streams": 1, "output": 50, DAY: 150, MONTH: 150, "total": 150}
    books.account(input_tokens=100, output_tokens=20)
    assert books.reserved() == {}
    assert books.spent() == {DAY: 120, MONTH: 120, "total": 120}
    assert books.spent("org_1") == books.spent(), "counted for whoever may get a limit one day"


async def test_a_caller_without_limits_costs_nothing(books: Books) -> None:
    assert await books.admit(a_caller()) == {}
    assert books.held() == set()
    books.account()
    assert books.spent()["total"] == 15


@pytest.mark.parametrize(
    ("quota", "kind"),
    [
        (Quota(rpm=2), "requests a minute"),
        (Quota(itpm=25), "input tokens a minute"),
        (Quota(otpm=50), "output tokens a minute"),
        (Quota(max_streams=2), "streams at once"),
        (Quota(budget_tokens_day=70), "tokens a day"),
        (Quota(budget_tokens_month=70), "tokens a month"),
        (Quota(budget_tokens=70), "tokens in all"),
    ],
)
@pytest.mark.parametrize("level", ["key", "organisation"])
async def test_each_limit_is_kept_at_each_level(books: Books, quota: Quota, kind: str, level: str) -> None:
    caller = a_caller(quota) if level == "key" else a_caller(organization=quota)
    for name in ("a", "b"):
        await books.admit(caller, name)
    with pytest.raises(RateLimited, match=f"The {level}'s limit is .* {kind}"):
        await books.admit(caller, "c")
    assert books.held() == {"a", "b"}
    assert [(s.level, s.shadow) for s in books.noted] == [(level, False)]


async def test_keys_of_an_organisation_share_its_limits_and_not_each_others(books: Books) -> None:
    together, own = Quota(rpm=3), Quota(rpm=2)
    for name in ("a", "b"):
        await books.admit(a_caller(own, together), name)
    await books.admit(a_caller(own, together, name="key_2"), "c")
    with pytest.raises(RateLimited, match="organisation"):
        await books.admit(a_caller(own, together, name="key_2"), "d")


async def test_a_refused_request_costs_nothing_anywhere(books: Books) -> None:
    caller = a_caller(Quota(rpm=10, itpm=1000, budget_tokens=1000), Quota(max_streams=1))
    await books.admit(caller, "a")
    before = books.reserved(), books.reserved("org_1"), states(books)
    for name in ("b", "c"):
        with pytest.raises(RateLimited):
            await books.admit(caller, name)
    assert (books.reserved(), books.reserved("org_1"), states(books)) == before


async def test_a_bucket_refills_all_the_time(books: Books) -> None:
    caller = a_caller(Quota(rpm=10))
    for i in range(10):
        await books.admit(caller, str(i))
    with pytest.raises(RateLimited) as refused:
        await books.admit(caller, "x")
    assert refused.value.headers["retry-after"] == "6"
    books.now += 5.999
    with pytest.raises(RateLimited):
        await books.admit(caller, "x")
    books.now += 0.001
    await books.admit(caller, "x")
    books.now += 600
    for i in range(10):
        await books.admit(caller, f"later {i}")
    with pytest.raises(RateLimited):
        await books.admit(caller, "y")


async def test_a_clock_that_is_set_back_stops_no_bucket(books: Books) -> None:
    caller = a_caller(Quota(rpm=1))
    await books.admit(caller, "a")
    books.now -= 3600
    with pytest.raises(RateLimited):
        await books.admit(caller, "b")
    books.now += 60
    with pytest.raises(RateLimited):
        await books.admit(caller, "b")


async def test_asking_again_for_a_message_takes_nothing_more(books: Books) -> None:
    caller = a_caller(Quota(rpm=1, max_streams=1))
    first = await books.admit(caller)
    assert await books.admit(caller) == first
    assert books.reserved()["streams"] == 1
    assert books.noted == []


async def test_what_is_given_back_was_never_taken(books: Books) -> None:
    caller = a_caller(Quota(rpm=10, itpm=100, otpm=100, max_streams=1, budget_tokens=50), Quota(rpm=10))
    await books.admit(caller)
    await books.give_back()
    await books.give_back()
    assert books.held() == set()
    assert books.reserved() == books.reserved("org_1") == {}
    headers = await books.admit(caller, "another")
    assert headers["anthropic-ratelimit-requests-remaining"] == "9"
    assert headers["anthropic-ratelimit-input-tokens-remaining"] == "90"


class TestRefusals:
    """When to come again, and whether to."""

    async def refused(self, books: Books, quota: Quota, **request: int) -> RateLimited:
        with pytest.raises(RateLimited) as refused:
            await books.admit(a_caller(quota), "refused", **request)
        return refused.value

    async def test_what_runs_may_leave_some_of_its_reservation(self, books: Books) -> None:
        quota = Quota(budget_tokens=50)
        await books.admit(a_caller(quota))
        error = await self.refused(books, quota)
        assert error.headers["retry-after"] == "1"
        assert "x-should-retry" not in error.headers
        assert error.message == "The key's limit is 50 tokens in all, and requests that are running have it. " \
            "Try again shortly."  # fmt: skip

    async def test_what_is_spent_is_spent(self, books: Books) -> None:
        quota = Quota(budget_tokens=50)
        books.account(output_tokens=20)
        error = await self.refused(books, quota)
        assert error.headers["x-should-retry"] == "false"
        assert int(error.headers["retry-after"]) > 3600
        assert error.code == "insufficient_quota"
        assert "may take 30 tokens" in error.message
        assert "20 are left" in error.message

    @pytest.mark.parametrize(("quota", "seconds"), [
        (Quota(budget_tokens_day=50), 600), (Quota(budget_tokens_month=50), 600),
    ])  # fmt: skip
    async def test_a_day_and_a_month_begin_anew(self, books: Books, quota: Quota, seconds: int) -> None:
        books.account(output_tokens=20)
        error = await self.refused(books, quota)
        assert (error.headers["retry-after"], error.headers["x-should-retry"]) == (str(seconds), "false")
        books.now += seconds
        await books.admit(a_caller(quota), "next")

    @pytest.mark.parametrize(
        ("quota", "field"),
        [(Quota(itpm=9), "messages"), (Quota(otpm=19), "max_tokens"), (Quota(budget_tokens_day=29), "max_tokens")],
    )
    async def test_what_is_larger_than_the_limit_never_fits(self, books: Books, quota: Quota, field: str) -> None:
        error = await self.refused(books, quota)
        assert error.param == field
        assert error.headers["x-should-retry"] == "false"

    async def test_the_limit_that_is_longest_in_the_way_is_told(self, books: Books) -> None:
        quota = Quota(rpm=60, otpm=30, max_streams=1)
        await books.admit(a_caller(quota))
        books.account(output_tokens=20)
        error = await self.refused(books, quota)
        assert "30 output tokens a minute" in error.message
        assert error.headers["retry-after"] == "20"

    async def test_a_reservation_of_a_rate_may_be_left_too(self, books: Books) -> None:
        quota = Quota(otpm=30)
        await books.admit(a_caller(quota))
        assert (await self.refused(books, quota)).headers["retry-after"] == "1"
        books.account(output_tokens=0)
        await books.admit(a_caller(quota), "b")


class TestShadow:
    """Limits that count without refusing."""

    async def test_it_refuses_nothing_and_says_so(self, books: Books, caplog: pytest.LogCaptureFixture) -> None:
        caller = a_caller(Quota(rpm=1, shadow=True))
        with caplog.at_level("INFO"):
            assert [await books.admit(caller, name) for name in ("a", "b")] == [{}, {}]
        assert [(s.name, s.shadow) for s in books.noted] == [("rpm", True)]
        assert "b: in shadow, it would be refused: The key's limit is 1 requests a minute" in caplog.text

    async def test_what_it_would_refuse_takes_nothing_of_it(self, books: Books) -> None:
        caller = a_caller(Quota(rpm=2, otpm=40, shadow=True))
        for name in "abcd":
            await books.admit(caller, name)
            books.account(name, output_tokens=20)
        assert [s.name for s in books.noted] == ["rpm", "otpm", "rpm", "otpm"]
        books.now += 30
        await books.admit(caller, "e")
        assert len(books.noted) == 4, "as if c and d had been refused"

    async def test_the_other_level_still_refuses(self, books: Books) -> None:
        caller = a_caller(Quota(rpm=1, shadow=True), Quota(max_streams=1))
        await books.admit(caller, "a")
        with pytest.raises(RateLimited):
            await books.admit(caller, "b")
        assert [s.level for s in books.noted] == ["organisation"]


class TestLeases:
    """Reservations of processes that died."""

    async def test_they_lapse(self, books: Books) -> None:
        caller = a_caller(Quota(max_streams=1, budget_tokens=50))
        await books.admit(caller, "a")
        books.now += LEASE_MS / 1000 - 0.001
        with pytest.raises(RateLimited):
            await books.admit(caller, "b")
        books.now += 0.001
        await books.admit(caller, "b")
        assert books.held() == {"b"}

    async def test_they_are_renewed_where_they_are(self, books: Books) -> None:
        caller = a_caller(Quota(max_streams=1))
        await books.admit(caller, "a")
        books.now += 60
        books.renew("a", "unknown")
        books.now += 60
        with pytest.raises(RateLimited):
            await books.admit(caller, "b")
        assert books.held() == {"a"}

    async def test_one_that_lapsed_is_accounted_for_all_the_same(self, books: Books) -> None:
        caller = a_caller(Quota(max_streams=1, otpm=100))
        await books.admit(caller, "a")
        books.now += LEASE_MS / 1000
        await books.admit(caller, "b")
        books.account("a", output_tokens=20)
        assert books.spent()["total"] == 30
        assert books.held() == {"b"}
        assert next(s.settled for s in books.shown if s.name == "otpm") == 0
        await books.admit(caller, "b")
        assert next(s.settled for s in books.shown if s.name == "otpm") == 20 * 60_000


class TestAccounts:
    """A message is counted once, by its id."""

    def test_again_changes_nothing(self, books: Books) -> None:
        assert [books.account(), books.account()] == [1, 1]
        assert books.spent()["total"] == 15

    def test_a_later_one_replaces_the_first(self, books: Books) -> None:
        books.account(output_tokens=5)
        books.account(output_tokens=8)
        assert books.spent()["total"] == 18
        books.account(output_tokens=2, pen=2)
        assert books.spent()["total"] == 12

    def test_that_of_an_earlier_claim_comes_too_late(self, books: Books) -> None:
        books.account(output_tokens=8, pen=2)
        assert books.account(output_tokens=3, pen=1) == 0
        assert books.spent()["total"] == 18

    def test_it_counts_for_the_day_its_message_came_in(self, books: Books) -> None:
        books.now += 3600
        books.account(created_at=books.now)
        books.account("earlier")
        assert books.spent() == {DAY: 15, MONTH: 15, "d20423": 15, "m202512": 15, "total": 30}

    async def test_output_flows_off_from_when_it_is_accounted_for(self, books: Books) -> None:
        caller = a_caller(Quota(otpm=60))
        await books.admit(caller, max_tokens=40)
        books.now += 30
        books.account(output_tokens=30)
        books.now += 10
        await books.admit(caller, "next")
        assert books.shown[0].settled == 20 * 60_000
