import pytest

from clawhive_core.execution.files.workspace import FileWorkspace


class Call:
    """The parts of an InvokeContext that the builtin tools use."""

    tool_call_id = "call_1"
    conversation_id = "conv_1"

    def __init__(self, root, artifacts):
        self.root, self.artifacts = root, str(artifacts)
        self.seconds = 30.0
        self.heard = []
        self.denied = {".env", ".clawhive"}

    @property
    def workspace(self):
        def allows(verb, path):
            inside = path == str(self.root) or path.startswith(f"{self.root}/")
            return inside and not self.denied & set(path.split("/"))

        return FileWorkspace(self.root, allows)

    def remaining(self):
        return self.seconds

    def progress(self, done, total=None, text=""):
        self.heard.append(("progress", text))

    def output(self, stream, data):
        self.heard.append((stream, data))


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def call(project, tmp_path):
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    return Call(project, artifacts)
