import socket

import pytest
from django.db import connections
from django.test import TestCase, TransactionTestCase

from orbit_django import conf
from orbit_django.client import start_on_commit
from orbit_django.testing import OrbitTestCaseMixin
from tests.testapp.models import Charge

pytestmark = pytest.mark.databases
CHARGE = "test.charge"


class Inside(OrbitTestCaseMixin, TestCase):
    """In one transaction for each test."""

    @classmethod
    def setUpTestData(cls):
        Charge.objects.create(key="set up")

    def test_a_task_and_its_rows(self):
        assert self.run_task(CHARGE, {"seconds": 0}).is_success
        assert Charge.objects.count() == 2

    def test_a_workflow(self):
        from orbit_django.contracts import read
        from tests.worker.staging import WORKFLOWS

        catalog = read(WORKFLOWS)
        self.orbit_runtime.declare(catalog.tasks.values(), catalog.workflows.values())
        start_on_commit("Charge", {"seconds": 0.0})
        assert self.run_until_idle() == 1
        assert Charge.objects.count() == 2

    def test_the_runtime_ends_with_the_test(self):
        before = conf.load().server
        url = self.orbit_runtime.url
        assert conf.load().server == url
        self.doCleanups()
        assert conf.load().server == before
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])))

    def test_what_needs_commits_says_so(self):
        with pytest.raises(Exception, match="derive it from TransactionTestCase instead of TestCase"):
            self.exactly_once(CHARGE, {"seconds": 0}, count=Charge.objects.count)


class Committing(OrbitTestCaseMixin, TransactionTestCase):
    """With commits."""

    def test_a_task_takes_effect_once(self):
        self.exactly_once(CHARGE, {"seconds": 0}, count=Charge.objects.count)
        assert Charge.objects.count() == 1


class BesideAnOpenConnection(OrbitTestCaseMixin, TransactionTestCase):
    """With commits, and with a connection that another test left open to a database that this one may not use."""

    @classmethod
    def setUpClass(cls):
        connections["other"].ensure_connection()
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        connections["other"].close()

    def test_a_task_takes_effect_once(self):
        assert connections["other"].connection is not None
        self.exactly_once(CHARGE, {"seconds": 0}, count=Charge.objects.count)
