import pytest

from clawhive_core.errors import LogWriteFailed
from clawhive_core.storage.sqlite.log import EventLog, Tables


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".clawhive" / "hive.db"


@pytest.fixture
def open_log(path):
    """Opens logs on one file and closes them at the end."""
    logs = []

    def open_one(schemas=(), projections=None, names=(), **named):
        tables = Tables(schemas, projections or {}, names)
        logs.append(EventLog.open(path, tables, **named))
        return logs[-1]

    yield open_one
    for log in logs:
        try:
            log.close()
        except LogWriteFailed:
            continue


@pytest.fixture
def log(open_log):
    return open_log()
