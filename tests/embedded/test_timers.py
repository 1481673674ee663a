from orbit_django.embedded.timers import Timers


def test_actions_come_when_they_are_due_earliest_first() -> None:
    timers, called = Timers(), []
    for due in (3.0, 1.0, 2.0):
        timers.at(due, lambda due=due: called.append(due))

    assert timers.next_due() == 1.0
    for action in timers.take_due(2.0):
        action()
    assert called == [1.0, 2.0]
    assert timers.next_due() == 3.0


def test_actions_of_one_moment_keep_their_order_and_may_add_more() -> None:
    timers, called = Timers(), []
    timers.at(1.0, lambda: timers.at(1.0, lambda: called.append("third")))
    timers.at(1.0, lambda: called.append("second"))
    for action in timers.take_due(1.0):
        action()

    assert called == ["second", "third"]
    assert timers.next_due() is None
