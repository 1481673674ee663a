"""The README's handlers, not changed by a letter, work for a Weave platform: one setting says so."""

import json
from pathlib import Path

from orbit_django.embedded.weave.platform import ENVIRONMENT, PROJECT, SECRET, TENANT
from orbit_django.embedded.weave.server import RARE, EmbeddedWeave
from tests.management.test_orbit_dev import free_port
from tests.test_readme import Project

DIGEST = "sha256:" + "d" * 64


def test_the_handlers_of_the_readme_work_for_weave_unchanged(tmp_path: Path) -> None:
    project = Project(tmp_path)
    with EmbeddedWeave(limits=RARE) as weave:
        place = {"SERVER": weave.url, "TENANT": TENANT, "PROJECT": PROJECT, "ENVIRONMENT": ENVIRONMENT}
        oauth = {"TOKEN_URL": weave.token_url, "CLIENT_ID": "worker", "CLIENT_SECRET": SECRET}
        deployer = tmp_path / "deployer"
        deployer.write_text(weave.call("issue_token", name="deployer"))
        settings = (tmp_path / "settings.py").read_text()
        configure = "{}\nORBIT |= {{'TRANSPORT': 'weave', 'WEAVE': {!r}}}\n".format
        (tmp_path / "settings.py").write_text(configure(settings, place | {"OAUTH": oauth}))
        project.manage("makemigrations", "library")
        project.manage("migrate")
        said = project.manage("orbit_weave", "admit", "--image-digest", DIGEST, "--token-file", str(deployer))
        release_id = said.split()[1]
        (tmp_path / "settings.py").write_text(configure(settings, place | {"OAUTH": oauth, "RELEASE_ID": release_id}))
        for member in ("Ada", "Bo"):
            weave.call("create_task", capability="library.lend@1.0.0", input={"book": "Emma", "member": member})
        weave.call("create_task", capability="library.remind@1.0.0", input={"member": "Ada"})
        project.manage(
            "orbit_worker", "--burst", "--processes", "2", "--health", str(free_port()), "--task", "library.*"
        )
        tasks = {json.dumps(one["input"]): one for one in weave.call("tasks")}

    lent = [one for one in tasks.values() if one["status"] == "completed" and "due" in (one["output"] or {})]
    refused = [one for one in tasks.values() if one["failure"]]
    assert len(lent) == len(refused) == 1
    assert refused[0]["failure"]["code"] == "LENT_OUT"
    assert tasks['{"member": "Ada"}']["output"] == {"note": "noted: mail to Ada"}
