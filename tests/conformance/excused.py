"""Clauses that have no check, each with the reason."""

SERVER = "binds the runtime; a worker can neither keep nor break it"
GRPC = "binds the gRPC binding, whose checks come with it"
OTHERS = "tells what other clients do, for comparison"
PEOPLE = "is for the people who run a runtime or hand out its certificates"

EXCUSED: dict[str, str] = {
    "O001": "a worker sends no version of the protocol, so none is seen",
    "O002": SERVER,
    "O003": GRPC,
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
    "O160": GRPC,
    "O161": GRPC,
    "O162": GRPC,
    "O163": GRPC,
    "O164": GRPC,
    "O165": GRPC,
    "O167": GRPC,
    "O168": GRPC,
    "O169": GRPC,
    "O170": GRPC,
    "O171": GRPC,
    "O172": GRPC,
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
