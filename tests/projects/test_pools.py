"""Pools of connections: a worker has more threads than a pool that nobody gave a size."""

import pytest

from tests.projects.project import Project


@pytest.fixture
def pooled(tmp_path):
    """Return what checks a project with a pool; no check asks the database, which need not be there."""

    def check(pool: object, *, concurrency: int = 4) -> str:
        database = {"ENGINE": "django.db.backends.postgresql", "NAME": "nowhere", "OPTIONS": {"pool": pool}}
        project = Project(tmp_path, database).settings(f'ORBIT["CONCURRENCY"] = {concurrency}\n')
        return " ".join(project.manage("check").split())

    return check


def test_a_pool_without_a_size_is_told(pooled) -> None:
    said = pooled(True)
    assert "W008) The pool of the database 'default' holds 4 connections, and a worker with CONCURRENCY 4" in said
    assert '"pool": {"max_size": 16}' in said


def test_a_pool_that_does_not_suit_the_concurrency_is_told(pooled) -> None:
    assert "holds 20 connections, and a worker with CONCURRENCY 7 takes up to 22" in pooled(
        {"min_size": 2, "max_size": 20}, concurrency=7
    )


@pytest.mark.parametrize("pool", [False, {"max_size": 16}, {"min_size": 30}])
def test_a_pool_that_is_large_enough_is_fine(pooled, pool) -> None:
    assert "W008" not in pooled(pool)
