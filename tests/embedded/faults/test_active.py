import pytest

from orbit_django.embedded.faults import Fault, Faults
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.exceptions import ConfigurationError
from tests.embedded.waits import Background, waiting
from tests.embedded.wire import Client


def test_a_fault_can_wait_and_can_be_lifted(faults: Faults, client: Client) -> None:
    session = client.register()
    fault = faults.add("status", "poll", value=503, times=None, skip=2)
    seen = [client.poll(session).status for _ in range(4)]
    fault.times = 0

    assert [*seen, client.poll(session).status] == [204, 204, 503, 503, 204]


def test_answers_on_purpose_come_one_at_a_time_in_their_order(faults: Faults, client: Client) -> None:
    for status in (500, 503, 502):
        faults.add("status", "heartbeat", value=status)

    assert [client.beat("x").status for _ in range(4)] == [500, 503, 502, 404]


def test_all_that_spoil_an_answer_do_so(faults: Faults, client: Client) -> None:
    faults.add("extra", "register")
    faults.add("version", "register")
    faults.add("set", "register", value={"warnings": ["careful"]})
    reply = client.post("/v1/workers/register", client.registration())

    assert "x_unknown" in reply.json
    assert reply.json["warnings"] == ["careful"]
    assert reply.headers["x-orbit-api-version"] == "orbit-api/2"


def test_what_nobody_can_read_any_more_is_spoilt_last(faults: Faults, client: Client) -> None:
    session = client.register()
    client.start()
    faults.add("garbage", "poll")
    faults.add("duplicate", "poll")
    first, second = client.poll(session), client.poll(session)

    assert first.status == 200
    with pytest.raises(ValueError, match="line 1"):
        first.json  # noqa: B018 (reading it is what fails)
    assert second.json["redelivery"] is True


def test_a_fault_of_assignments_lets_empty_polls_pass(runtime: EmbeddedRuntime, faults: Faults, client: Client) -> None:
    session = client.register()
    faults.add("lost", "assignment")
    assert client.poll(session, 1).status == 204
    poll = Background(client.poll, session, 20_000)
    waiting(runtime)
    other = Client(runtime.url)
    other.start()

    assert isinstance(poll.join(), OSError)
    assert other.poll(session).status == 204, "the session holds what it never saw"
    other.close()


def test_all_faults_can_be_lifted(faults: Faults, client: Client) -> None:
    faults.add("status", times=None)
    assert client.start().status == 503
    faults.clear()

    assert client.start().status == 200


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("explode", "poll"), "fault explode:poll: kinds are lost, drop,"),
        (Fault("lost", "polls"), "fault lost:polls: calls are register, poll,"),
        (Fault("status", "assignment"), "it strikes before there is a task; name poll"),
    ],
)
def test_faults_that_there_are_not(fault: Fault, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Faults().add(fault.kind, fault.call)
    with pytest.raises(ConfigurationError, match=said):
        Faults(fault)
