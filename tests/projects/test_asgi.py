"""A project that is served by ASGI alone, whose views and handlers are coroutines."""

VIEWS = """
from asgiref.sync import sync_to_async
from django.http import JsonResponse
from django.urls import path

from orbit_django.client import Client, start_on_commit


async def ask(request):
    client = Client()
    started = await sync_to_async(client.start)("Order", {"key": "now"}, execution_id="now")
    later = await sync_to_async(start_on_commit)("Order", {"key": "later"}, execution_id="later")
    found = await sync_to_async(client.get)(started)
    client.close()
    return JsonResponse({"started": started, "later": later, "status": found["status"]})


urlpatterns = [path("ask/", ask)]
"""
PLAYED = """
import asyncio
import os

import django
from django.core.asgi import get_asgi_application

application = get_asgi_application()

from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient

from orbit_django.testing import run_until_idle, running_runtime


async def browse():
    answer = await AsyncClient().get("/ask/")
    print(answer.content.decode())
    await sync_to_async(connections.close_all)()  # of the thread that the view's queries ran in


with running_runtime() as runtime:
    asyncio.run(browse())
    print(run_until_idle(runtime, threads=2), "tasks")
    print(*(runtime.execution(each)["status"] for each in ("now", "later")))
"""


def test_coroutines_start_executions_and_serve_tasks(project) -> None:
    """The web process and its worker's threads work in one project; no event loop is blocked by the ORM."""
    project.write("urls.py", VIEWS)
    project.settings('ASGI_APPLICATION = "asgi.application"\nWSGI_APPLICATION = None\n')
    project.play("check", "migrate")
    said = project.python("-c", PLAYED).splitlines()
    assert said == ['{"started": "now", "later": "later", "status": "RUNNING"}', "6 tasks", "COMPLETED COMPLETED"]
