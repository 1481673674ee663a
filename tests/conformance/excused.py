"""Clauses that have no check, each with the reason."""

SERVER = "binds the runtime; a worker can neither keep nor break it"
DEFINITION = "is about the definition, which tests/transports/test_proto.py compares with these clauses"
OTHERS = "tells what other clients do, for comparison"
PEOPLE = "is for the people who run a runtime or hand out its certificates"

EXCUSED: dict[str, str] = {
    "O002": SERVER,
    "O003": DEFINITION,
    "O031": SERVER,
    "O037": PEOPLE,
    "O038": PEOPLE,
    "O042": PEOPLE,
    "O064": SERVER,
    "O065": SERVER,
    "O101": SERVER,
    "O103": SERVER,
    "O104": SERVER,
    "O113": SERVER,
    "O172": DEFINITION,
    "O187": SERVER,
    "O198": OTHERS,
    "O199": OTHERS,
    "O206": SERVER,
    "O207": OTHERS,
    "O215": SERVER,
    "O220": "is the administrator's side, which a worker must not call",
    "O221": PEOPLE,
    "O222": "is the language of the declarations, which a worker does not read",
}
