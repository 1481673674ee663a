"""The handler of the recorded conversation; what it does depends on who is greeted."""

from typing import Any

from orbit_django import TaskContext, TaskError, task


@task("greeting.compose", version="1.0.0")
def compose(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Greet, or fail in one of the recorded ways."""
    name = input["name"]
    if not name:
        raise TaskError("INVALID_NAME", "name is blank")
    if name == "Ada" and ctx.attempt == 1:
        raise TaskError("GREETER_BUSY", "try again later", details={"queue_depth": 42})
    if name == "Wrong":
        return {"msg": 1}
    if name == "Cy":
        ctx.sleep(30)
        ctx.raise_if_cancelled()
    if name == "Di" and not ctx.redelivery:
        ctx.sleep(30)
        ctx.raise_if_cancelled()
    return {"message": f"Hello, {name}"}
