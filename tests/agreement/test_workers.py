from typing import Any

import pytest

from orbit_django.agreement import served
from orbit_django.protocol import Contract
from orbit_django.tasks import Task

PAY, SHIP = Contract("shop.pay", "1.0.0"), Contract("shop.ship", "1.0.0")
OURS = [Task(contract, print) for contract in (PAY, SHIP)]


def worker(*contracts: tuple[str, str], **more: Any) -> dict[str, Any]:
    listed = [{"task_name": name, "contract_version": version} for name, version in contracts]
    return {"worker_id": "w", "contracts": listed, "online": True, **more}


def test_workers_that_are_online_are_counted_for_each_task() -> None:
    both = worker(("shop.pay", "1.0.0"), ("shop.ship", "1.0.0"))
    found = served(OURS, [both, worker(("shop.pay", "1.0.0")), worker(("shop.pay", "1.0.0"), online=False)])
    assert (found.online, found.counts[PAY], found.counts[SHIP], found.lacking) == (2, 2, 1, ())


def test_a_task_lacks_workers_when_the_project_has_some() -> None:
    assert served(OURS, [worker(("shop.pay", "1.0.0"))]).lacking == (SHIP,)
    assert served(OURS, [worker(("shop.pay", "0.9.0"))]).lacking == (PAY, SHIP)


@pytest.mark.parametrize("workers", [[], [worker(("other.task", "1"))], [worker(("shop.pay", "1.0.0"), online=False)]])
def test_nothing_lacks_where_no_worker_of_the_project_runs(workers: list[Any]) -> None:
    assert served(OURS, workers).lacking == ()


def test_an_answer_of_another_form_is_no_trouble() -> None:
    found = served(OURS, ["w", None, {"contracts": "many"}, {"contracts": [1, {"task_name": 7}]}])
    assert (found.online, found.lacking) == (2, ())
