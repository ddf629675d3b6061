"""What `npm run fuzz` adds to schemathesis (SCHEMATHESIS_HOOKS): bodies that reach the handlers, a key that stays alive,
and a count of what came back, written as JSON to FUZZ_COUNTS at the end."""

import atexit
import json
import os
from collections import Counter

import schemathesis

own_key_id = os.environ["FUZZ_KEY_ID"]
statuses: Counter[int] = Counter()
operations: Counter[str] = Counter()
unanswered: Counter[str] = Counter()


@schemathesis.hook
def before_load_schema(ctx, raw_schema):
    """Texts that hold JSON are made from the events they hold: random text would never get past the parser."""
    event = {"$ref": "#/components/schemas/Event"}
    for path, held in [("/collect", event), ("/collect/batch", {"type": "array", "items": event})]:
        content = raw_schema["paths"][path]["post"]["requestBody"]["content"]
        if "application/x-ndjson" in content:
            content["application/x-ndjson"] = {"schema": held}
        content["text/plain"] = {"schema": content["application/json"]["schema"]}


def to_bytes(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


@schemathesis.serializer("text/plain")
def text(ctx, value):
    return to_bytes(value)


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    return b"".join(to_bytes(each) + b"\n" for each in value) if isinstance(value, list) else to_bytes(value)


@schemathesis.hook
def filter_case(ctx, case):
    """Nothing may change or revoke the key that all of this is done with."""
    return case.method == "GET" or (case.path_parameters or {}).get("key_id") != own_key_id


@schemathesis.hook
def after_call(ctx, case, response):
    statuses[response.status_code] += 1
    operations[case.operation.label] += 1


@schemathesis.hook
def after_network_error(ctx, case, request):
    unanswered[case.operation.label] += 1


@atexit.register
def write_counts():
    with open(os.environ["FUZZ_COUNTS"], "w") as file:
        json.dump({"statuses": statuses, "operations": operations, "unanswered": unanswered}, file)
