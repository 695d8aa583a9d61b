"""The logic of the shipped skill `research`, as a module."""

import importlib.util
from pathlib import Path

import pytest

HANDLERS = Path(__file__).parents[2] / "skills" / "research" / "handlers.py"


def load():
    spec = importlib.util.spec_from_file_location("research_handlers", HANDLERS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RESEARCH = load()


@pytest.fixture
def research():
    return RESEARCH


@pytest.fixture
def write(research):
    """Make a report of texts by path."""

    def make(query, texts, **options):
        sources = [research.source_of(path, text) for path, text in texts.items()]
        return research.compose(query, sources, [], options)

    return make
