"""What the tests of worker processes share: workflows, and looks at what happened."""

import pytest

from tests.processes import Stage, wait_for

TASK = """
task "test.{task}" {{ version "1.0.0" input {{ seconds: Float }} output {{ charge: String }} }}
workflow {name} {{
  version "1.0.0"
  input {{ seconds: Float }}
  output {{ charge: String }}
  step only {{ worker "test.{task}" with {{ seconds: input.seconds }} }}
  return {{ charge: only.charge }}
}}
"""
HURRY = """
workflow Hurry {
  version "1.0.0"
  input { seconds: Float }
  output { charge: String }
  step only { worker "test.hold" with { seconds: input.seconds } timeout 1s }
  return { charge: only.charge }
}
"""
FLAKY = """
workflow Retried {
  version "1.0.0"
  input { seconds: Float }
  output { charge: String }
  step only { worker "test.flaky" with { seconds: input.seconds } retry { attempts: 3, initial_delay: 0s } }
  return { charge: only.charge }
}
"""
NAMES = ("Charge", "Hold", "Spin", "Litter", "Linger", "Flaky", "Leak", "Spill", "Sabotage", "Seize")
WORKFLOWS = "".join(TASK.format(task=name.lower(), name=name) for name in NAMES) + FLAKY

short_session = pytest.mark.parametrize("timeout_ms", [3_000])


def begun(stage: Stage, count: int = 1) -> None:
    wait_for(lambda: len(stage.notes("begin")) >= count, 20)


def dispatches(stage: Stage, execution_id: str) -> int:
    return len(stage.events(execution_id, "StepDispatched"))


def reports(stage: Stage) -> int:
    return len(stage.faults.times("complete")) + len(stage.faults.times("fail"))
