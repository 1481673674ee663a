"""Reports that are refused: what is lost, what is kept, and who may try again."""

import threading
from pathlib import Path

import pytest

from tests.conformance import http_face
from tests.conformance.observer import accept, by_token, refuse, unavailable
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.conformance.watching import WATCHED_SECONDS, assert_never_again, bodies, fails
from tests.processes import wait_for

OWN = {
    "t-400": refuse(400, "INVALID_REQUEST", "not so"),
    "t-404": refuse(404, "NOT_FOUND", "not so"),
    "t-409": refuse(409, "CONFLICT", "not so"),
}
PLAIN = {f"t-{status}": http_face.text(status, "not so") for status in (413, 415, 422)}
ELSEWHERE = (404, 408, 413, 429)


@check("A success that the runtime refuses by its own 4xx is not sent again; one small failure ends the step",
       "O018", "O152", "O307")  # fmt: skip
@pytest.mark.promise("D2", "D3")
def test_refused_success(scene: Scene) -> None:
    scene.always("complete", by_token(OWN, accept))
    for token in OWN:
        scene.deliver(token)
    worker = scene.work(lambda input: {"a": 1})
    for token in OWN:
        complete, fail = wait_for(lambda token=token: len(found := scene.reports(token)) == 2 and found)
        assert (complete.name, fail.name) == ("complete", "fail")
        assert (fail.fields["error_code"], fail.fields["retryable"]) == ("RESULT_REFUSED", False)
        assert "not so" in str(fail.fields)
    assert worker.log().count("not so") >= 3
    assert_never_again(scene, 2 * len(OWN))


@check("So is one that the runtime refuses in plain text; 413 is RESULT_TOO_LARGE", "O014", "O017", "O307", only="http")
@pytest.mark.promise("D3")
def test_refused_in_plain_text(scene: Scene) -> None:
    scene.always("complete", by_token(PLAIN, accept))
    for token in PLAIN:
        scene.deliver(token)
    scene.work(lambda input: {"a": 1})
    for token in PLAIN:
        _, fail = wait_for(lambda token=token: len(found := scene.reports(token)) == 2 and found)
        assert fail.fields["error_code"] == ("RESULT_TOO_LARGE" if token == "t-413" else "RESULT_REFUSED")
    assert_never_again(scene, 2 * len(PLAIN))


@check("A refused failure is not sent again, and nothing follows it", "O102", "O152")
@pytest.mark.promise("D2", "D3")
def test_refused_failure(scene: Scene) -> None:
    scene.always("fail", refuse(400, "INVALID_REQUEST", "not like this"))
    scene.deliver()
    scene.work(lambda input: fails(input) if input != "fine" else {})
    scene.report()
    threading.Event().wait(WATCHED_SECONDS)
    assert len(scene.reports()) == 1
    scene.deliver("next", input="fine")
    assert scene.report("next").name == "complete"


@check("401 and 403 say nothing about a result: it is kept, not repeated, and tried once by the next worker",
       "O018", "O093", "O152", "O308")  # fmt: skip
@pytest.mark.promise("D2")
@pytest.mark.parametrize(("status", "code"), [(401, "UNAUTHENTICATED"), (403, "FORBIDDEN")])
def test_blocked(scene: Scene, status: int, code: str) -> None:
    scene.always("complete", refuse(status, code, "not with this credential"))
    scene.deliver()
    worker = scene.work(lambda input: {"a": 1})
    scene.report()
    threading.Event().wait(WATCHED_SECONDS)
    assert len(scene.reports()) == 1
    assert "not with this credential" in worker.log()
    assert worker.end() == 0
    scene.always("complete", accept)
    scene.work()
    wait_for(lambda: len(scene.reports()) == 2)
    assert len({repr(body) for body in bodies(scene)}) == 1


@check("A result that was kept is tried once more when the credential has changed, with the new one", "O041", "O308")
@pytest.mark.promise("D2", "W9")
def test_new_credential(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("tok-SECRET-old")
    scene.always("complete", refuse(401, "UNAUTHENTICATED"))
    scene.deliver()
    scene.work(lambda input: {"a": 1}, worker_token_file=str(file))
    scene.report()
    threading.Event().wait(WATCHED_SECONDS)
    assert len(scene.reports()) == 1
    scene.always("complete", accept)
    (tmp_path / "new").write_text("tok-SECRET-new")
    (tmp_path / "new").replace(file)
    second = scene.wait("complete", 2)[1]
    assert second.wire.headers["authorization"] == "Bearer tok-SECRET-new"


@check("Neither does what comes from a proxy or leads elsewhere: the result is kept, and no redirect is followed",
       "O041", "O309", "O310", only="http")  # fmt: skip
@pytest.mark.promise("D2", "W9")
def test_not_the_runtime(scene: Scene) -> None:
    other = Scene.face_of(scene.binding)
    replies = {f"t-{status}": http_face.page(status) for status in ELSEWHERE}
    replies["t-307"] = http_face.raw(307, "", location=f"{other.url}/v1/tasks/complete")
    scene.always("complete", by_token(replies, accept))
    for token in replies:
        scene.deliver(token)
    worker = scene.work(lambda input: {"a": 1}, worker_token="tok-SECRET-93")
    for token in replies:
        scene.report(token)
    assert_never_again(scene, len(replies))
    other.close()
    assert other.observer.calls == []
    assert worker.end() == 0
    scene.work()
    for token in replies:
        wait_for(lambda token=token: [call.status for call in scene.reports(token)][1:] == [200])


@check("A redirect of any call is not followed", "O310", only="http")
@pytest.mark.promise("W9")
def test_redirects(scene: Scene) -> None:
    elsewhere = Scene.face_of(scene.binding)
    for name in ("poll", "heartbeat", "unregister"):
        scene.script(name, http_face.raw(307, "", location=f"{elsewhere.url}/v1/workers/{name}"))
    worker = scene.work(worker_token="tok-SECRET-93")
    scene.wait("heartbeat", 2)
    assert worker.end() == 0
    elsewhere.close()
    assert elsewhere.observer.calls == []


@check("A result is left to workers of the server that it was earned for", "O326")
@pytest.mark.promise("D2")
def test_other_server(scene: Scene) -> None:
    other = Scene.face_of(scene.binding)
    other.runtime = lambda: scene.runtime
    scene.always("complete", unavailable)
    scene.deliver()
    first = scene.work()
    scene.report()
    first.kill()
    second = scene.work(server=other.url)
    wait_for(lambda: other.observer.named("poll"))
    threading.Event().wait(WATCHED_SECONDS)
    assert other.observer.reports() == []
    second.kill()
    other.close()
    scene.always("complete", accept)
    scene.work()
    assert wait_for(lambda: [call for call in scene.reports() if call.status == 200], 20)


@check("One that a 403 says belongs to another identity is left to its worker id", "O036", "O326")
@pytest.mark.promise("D2")
def test_other_identity(scene: Scene) -> None:
    scene.always("complete", unavailable)
    scene.deliver()
    first = scene.work()
    scene.report()
    first.kill()
    sent = len(scene.reports())
    scene.always("complete", refuse(403, "FORBIDDEN", "task token was issued to worker `watched-1`, not `second`"))
    second = scene.work(worker_id="second")
    wait_for(lambda: len(scene.reports()) > sent, 25)
    threading.Event().wait(2 * WATCHED_SECONDS)
    assert len(scene.reports()) == sent + 1
    second.kill()
    scene.always("complete", accept)
    scene.work()
    wait_for(lambda: len(scene.reports()) == sent + 2, 25)
