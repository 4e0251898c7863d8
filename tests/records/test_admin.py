"""Records in the admin."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.utils import NestedObjects
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from records.admin import DailyUsageAdmin, RequestRecordAdmin, longlist
from records.models import DailyUsage, RequestRecord
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


# Reading in the order of time is what LIMIT ends.
WHOLE_TABLE = re.compile(r"SCAN records_\w+(?! USING (?:COVERING )?INDEX (?:record_by_time|usage_by_day))\b")
LIST, USAGE = "/admin/records/requestrecord/", "/admin/records/dailyusage/"


def make(tenant: Tenant, message_id: str, **facts: Any) -> RequestRecord:
    record = a_record(tenant, message_id, **facts)
    record.save(force_insert=True)
    return record


def a_record(tenant: Tenant, message_id: str, **facts: Any) -> RequestRecord:
    usual: dict[str, Any] = {
        "id": message_id, "organization": tenant.key.organization, "key": tenant.key, "model": "m",
        "created_at": timezone.now(), "input_tokens": 3, "outcome": "end_turn", "output_tokens": 5, "ttft_ms": 31.4,
        "stream_ms": 80.0,
    }  # fmt: skip
    return RequestRecord(**usual | facts)


def use(tenant: Tenant, model: str = "m", **facts: Any) -> DailyUsage:
    usual: dict[str, Any] = {
        "day": timezone.now().date(), "organization": tenant.key.organization, "key": tenant.key, "model": model,
        "outcome": "end_turn", "requests": 7,
    }  # fmt: skip
    return DailyUsage.objects.create(**usual | facts)


def shown(client: Client, query: str = "", path: str = LIST) -> list[Any]:
    """The ids of a page's rows."""
    r = client.get(f"{path}{query}")
    assert r.status_code == 200
    return [row.pk for row in r.context["cl"].result_list]


def test_it_works(admin_client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    page = admin_client.get("/admin/records/requestrecord/").content.decode()
    assert "msg_1" in page
    assert "31 ms" in page
    assert admin_client.get("/admin/records/requestrecord/msg_1/change/").status_code == 200


def test_one_says_in_words_what_is_known(admin_client: Client, alice: Tenant) -> None:
    readers = {"req_1": [0.0, 1234, 0], "req_2": [1500.0, 99, 1]}
    made = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    make(alice, "msg_1", created_at=made, readers=readers, bytes_sent=1333, cached_tokens=1000, stages={"auth_ms": 1})
    page = admin_client.get(f"{LIST}msg_1/change/").content.decode()
    assert "2026-01-02 03:04:05 UTC" in page
    assert "req_1: 1,234 bytes<br>req_2: 99 bytes, came 1,500 ms later, resumed" in page
    for name, value in (("TTFT", "31.4 ms"), ("TPOT", "20.0 ms"), ("Of these, cached", "1,000"), ("Prefill", "-")):
        assert re.search(rf"<label>{name}:</label>\s*<div class=\"readonly\">{value}</div>", page), name
    assert "auth_ms" not in page, "that is in the waterfall"


def test_it_is_called_by_its_name(admin_client: Client) -> None:
    assert "| Sluice</title>" in admin_client.get("/admin/").content.decode()


def test_records_are_not_changed_by_hand(admin_client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    assert admin_client.get("/admin/records/requestrecord/add/").status_code == 403
    assert admin_client.post("/admin/records/requestrecord/msg_1/change/", {}).status_code == 403
    assert admin_client.get("/admin/records/requestrecord/msg_1/delete/").status_code == 403


def test_a_record_outlives_what_it_names(admin_client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    owner = alice.key.organization_id
    alice.key.delete()
    alice.key.organization.delete()
    page = admin_client.get("/admin/records/requestrecord/").content.decode()
    assert "msg_1" in page
    assert owner in page
    detail = admin_client.get("/admin/records/requestrecord/msg_1/change/")
    assert (detail.status_code, owner in detail.content.decode()) == (200, True)


def test_it_filters(admin_client: Client, alice: Tenant, bob: Tenant, charlie: Tenant) -> None:
    make(alice, "a")
    make(bob, "b", model="other")
    make(charlie, "c", outcome="error")
    alpha = f"organization__id__exact={alice.key.organization_id}"
    assert shown(admin_client, "?outcome__exact=error") == ["c"]
    assert shown(admin_client, "?model=other") == ["b"]
    assert set(shown(admin_client, f"?{alpha}")) == {"a", "b"}
    assert shown(admin_client, f"?{alpha}&key__id__exact={alice.key.id}") == ["a"]
    assert shown(admin_client, "?key__id__exact=key_none") == []


def test_its_filters_offer_what_there_is(admin_client: Client, alice: Tenant, bob: Tenant, charlie: Tenant) -> None:
    for model in ("m", "other", "m"):
        make(alice, f"msg_{RequestRecord.objects.count()}", model=model)
    page = admin_client.get(f"{LIST}?organization__id__exact={alice.key.organization_id}")
    specs = {spec.title: dict(getattr(spec, "lookup_choices", ())) for spec in page.context["cl"].filter_specs}
    assert list(specs["model"]) == ["m", "other"]
    assert set(specs["organisation"].values()) == {"alpha", "gamma"}
    assert set(specs["key"].values()) == {"alice", "bob"}


@pytest.mark.parametrize("term", ["msg_1", " msg_1 ", "key", "org"])
def test_it_searches_by_id(admin_client: Client, alice: Tenant, charlie: Tenant, term: str) -> None:
    make(alice, "msg_1")
    make(charlie, "msg_2")
    ids = {"key": alice.key.id, "org": alice.key.organization_id}
    assert shown(admin_client, f"?q={ids.get(term, term)}") == ["msg_1"]


class TestDates:
    """The way to a day."""

    def links(self, client: Client, query: str = "", path: str = LIST) -> tuple[str | None, list[str]]:
        dates = client.get(f"{path}{query}").context["cl"].date_links()
        return dates["back"] and dates["back"]["title"], [choice["title"] for choice in dates["choices"]]

    def test_it_works(self, admin_client: Client, alice: Tenant) -> None:
        for moment in ("2025-11-29T12:00", "2025-12-31T23:59", "2026-02-03T00:00"):
            make(alice, moment, created_at=datetime.fromisoformat(f"{moment}Z"))
        assert self.links(admin_client) == (None, ["2025", "2026"])
        assert self.links(admin_client, "?created_at__year=2025") == ("All dates", ["November 2025", "December 2025"])
        month = "?created_at__year=2026&created_at__month=2"
        assert self.links(admin_client, month) == ("2026", ["February 1", "February 2", "February 3"])
        assert self.links(admin_client, f"{month}&created_at__day=3") == ("February 2026", ["February 3"])
        assert shown(admin_client, f"{month}&created_at__day=3") == ["2026-02-03T00:00"]
        assert shown(admin_client, "?created_at__year=2025") == ["2025-12-31T23:59", "2025-11-29T12:00"]

    def test_one_year_is_not_chosen(self, admin_client: Client, alice: Tenant) -> None:
        use(alice, day=datetime(2026, 3, 1, tzinfo=UTC).date())
        assert self.links(admin_client, path=USAGE) == (None, ["March 2026"])
        assert len(shown(admin_client, "?day__year=2026&day__month=3", USAGE)) == 1

    @pytest.mark.parametrize(
        "query",
        ["created_at__year=x", "created_at__year=9999", "created_at__year=0", "created_at__month=3",
         "created_at__year=2026&created_at__month=13", f"created_at__year={'9' * 5000}", "created_at__gte=x"],
    )  # fmt: skip
    def test_what_is_no_date_shows_the_whole_list(self, admin_client: Client, alice: Tenant, query: str) -> None:
        make(alice, "msg_1")
        r = admin_client.get(f"{LIST}?{query}", follow=True)
        assert (r.status_code, len(r.context["cl"].result_list)) == (200, 1)


def test_no_other_fields_are_looked_at(admin_client: Client, alice: Tenant) -> None:
    assert admin_client.get(f"{LIST}?worker__contains=x").status_code == 400


def test_only_time_orders(admin_client: Client, alice: Tenant) -> None:
    now = timezone.now()
    for number in range(3):
        make(alice, f"msg_{number}", created_at=now - timedelta(hours=number), model=f"{number * 2 % 3}")
    assert (
        shown(admin_client)
        == shown(admin_client, "?o=4")
        == shown(admin_client, "?o=-1")
        == ["msg_0", "msg_1", "msg_2"]
    )
    assert shown(admin_client, "?o=1") == ["msg_2", "msg_1", "msg_0"]


class TestLongLists:
    """As fast with many rows as with few."""

    @pytest.fixture(autouse=True)
    def short_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for model_admin in (RequestRecordAdmin, DailyUsageAdmin):
            monkeypatch.setattr(model_admin, "list_per_page", 20)

    @pytest.fixture
    def paths(self, alice: Tenant) -> list[str]:
        alpha = f"organization__id__exact={alice.key.organization_id}"
        queries = ["", "p=2", "o=1", "outcome__exact=end_turn", "model=m", alpha, f"key__id__exact={alice.key.id}",
                   f"{alpha}&outcome__exact=end_turn&model=m", "created_at__year=2026&created_at__month=3", "q=msg_1",
                   f"q={alice.key.id}", "created_at__gte=2026-03-01T00:00:00%2B00:00"]  # fmt: skip
        return [f"{LIST}?{query}" for query in queries] + [f"{USAGE}?{alpha}", USAGE]

    def fill(self, tenant: Tenant, numbers: range) -> None:
        RequestRecord.objects.bulk_create(a_record(tenant, f"msg_{number}") for number in numbers)
        for number in numbers[:10]:
            use(tenant, f"m{number}")

    def queries(self, client: Client, path: str) -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(path).status_code == 200
        return [query["sql"] for query in queries.captured_queries]

    def test_the_number_of_queries_is_constant(self, admin_client: Client, alice: Tenant, paths: list[str]) -> None:
        self.fill(alice, range(10))
        paths.remove(f"{LIST}?p=2")
        few = [len(self.queries(admin_client, path)) for path in paths]
        self.fill(alice, range(10, 200))
        assert [len(self.queries(admin_client, path)) for path in paths] == few
        assert max(few) <= 10

    @pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's plans")
    def test_all_rows_are_never_looked_at(self, admin_client: Client, alice: Tenant, paths: list[str]) -> None:
        self.fill(alice, range(30))
        for path in paths:
            for sql in self.queries(admin_client, path):
                if 'FROM "records_' not in sql or "LIMIT 10001" in sql:
                    continue
                with connection.cursor() as cursor:
                    cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
                    plan = "; ".join(step for *_, step in cursor.fetchall())
                assert not WHOLE_TABLE.search(plan), (path, plan)
                last_term = "RIGHT PART OF ORDER BY" in plan or "LAST TERM OF ORDER BY" in plan
                assert "USE TEMP B-TREE" not in plan or (last_term and "dailyusage" in plan), (path, plan)

    def test_it_counts_and_turns_pages_to_a_bound(
        self, admin_client: Client, alice: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(longlist, "COUNTED", 45)
        self.fill(alice, range(50))
        page = admin_client.get(LIST)
        assert "More than 45 request records" in page.content.decode()
        assert len(page.context["cl"].result_list) == 20
        beyond = admin_client.get(f"{LIST}?p=4")
        assert "There is no such page" in beyond.content.decode()
        assert len(beyond.context["cl"].result_list) == 5

    def test_whoever_deletes_a_key_looks_at_no_record(self, alice: Tenant) -> None:
        make(alice, "msg_1")
        use(alice)
        with CaptureQueriesContext(connection) as queries:
            NestedObjects(using="default").collect([alice.key])
        assert not [query["sql"] for query in queries.captured_queries if "records_" in query["sql"]]
