"""Extensions of schemathesis for `npm run fuzz` (SCHEMATHESIS_HOOKS): bodies and ids that reach the handlers, protection
of the key of the run, and counts of the responses, which are written as JSON to FUZZ_COUNTS at the end."""

import atexit
import json
import os
from collections import Counter, defaultdict
from zlib import crc32

import schemathesis

own_key_id = os.environ["FUZZ_KEY_ID"]
# The example in the document, which the first requests register.
known_site = "my-site"
answers: defaultdict[str, Counter[int]] = defaultdict(Counter)
unanswered: Counter[str] = Counter()


@schemathesis.hook
def before_load_schema(ctx, raw_schema):
    """Generate bodies of JSON in text from events: random text would never pass the parser."""
    event = {"$ref": "#/components/schemas/Event"}
    for path, operation in raw_schema["paths"].items():
        content = operation.get("post", {}).get("requestBody", {}).get("content", {})
        if "application/x-ndjson" in content:
            content["application/x-ndjson"] = {"schema": {"type": "array", "items": event}}
        if "text/plain" in content:
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
def map_case(ctx, case):
    """Replace most site ids by a known site: a random site only tests the 404, and the key may register only a thousand."""
    if case.operation.label == "POST /api/v1/sites":
        return case
    events = case.body.get("events") if isinstance(case.body, dict) else case.body
    for part in [case.path_parameters, case.query, case.body, *(events if isinstance(events, list) else [])]:
        site = part.get("site_id") if hasattr(part, "get") else None
        if isinstance(site, str) and site != "" and crc32(site.encode("utf-8", "replace")) % 4 != 0:
            part["site_id"] = known_site
    return case


@schemathesis.hook
def filter_case(ctx, case):
    """Exclude requests that would change or revoke the key of the run."""
    return case.method == "GET" or (case.path_parameters or {}).get("key_id") != own_key_id


@schemathesis.hook
def after_call(ctx, case, response):
    answers[case.operation.label][response.status_code] += 1


@schemathesis.hook
def after_network_error(ctx, case, request):
    unanswered[case.operation.label] += 1


@atexit.register
def write_counts():
    with open(os.environ["FUZZ_COUNTS"], "w") as file:
        json.dump({"answers": answers, "unanswered": unanswered}, file)
