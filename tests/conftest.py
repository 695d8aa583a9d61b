import pytest


@pytest.fixture
def project_root(tmp_path, monkeypatch):
    """Return the empty folder of a project, outside of every run."""
    monkeypatch.delenv("CLAWHIVE_RUN", raising=False)
    root = tmp_path / "project"
    root.mkdir()
    return root
