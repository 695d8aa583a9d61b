"""What it costs to look for secrets in an event of about 1 KB, beside encoding it without looking.

Run `python benchmarks/redaction.py [--smoke]`. One line a case: CPU microseconds to make the row of
an event that holds no secret, and the ratio to the row without redaction.
"""

from __future__ import annotations

from functools import partial

import measure
from log_append import event

from clawhive_core.events.redaction import Redactor
from clawhive_core.events.rows import encode

TS = "2026-01-01T00:00:00.000000Z"


def known(count: int, *, by_form: bool) -> Redactor:
    redactor = Redactor(by_form=by_form)
    for number in range(count):
        redactor.add(f"hunter{number:03}-{number * 7919:x}")
    return redactor


def rows(redactor: Redactor, count: int) -> measure.Sample:
    one = event(1)

    def work() -> None:
        for _ in range(count):
            encode(one, TS, redactor)

    return measure.clock(work).per(count)


def main() -> None:
    smoke = measure.arguments(__doc__).smoke
    count, rounds = (200, 2) if smoke else (5_000, 7)
    cases = {
        "no redaction": Redactor(),
        "forms of secrets": known(0, by_form=True),
        "forms and 20 known secrets": known(20, by_form=True),
    }
    found = measure.alternate(
        {name: partial(rows, redactor, count) for name, redactor in cases.items()}, rounds
    )
    floor = found["no redaction"]
    print(f"an event of {len(encode(event(1), TS, Redactor()).inner)} bytes")
    measure.costs(found.values(), floor, measure.micros, "us")
    measure.finish("redaction", {name: round(each.cpu() * 1e6, 1) for name, each in found.items()})


if __name__ == "__main__":
    measure.start(main)
