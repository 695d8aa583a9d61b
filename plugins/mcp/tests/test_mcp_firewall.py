"""The story of `examples/mcp-firewall`, as its pages tell it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "mcp-firewall"


def told(page):
    """Return the lines of a page's text blocks."""
    blocks = re.findall(r"```text\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return [
        line.strip()
        for block in blocks
        for line in block.splitlines()
        if "mcp." in line or "{" in line
    ]


@pytest.mark.slow
@pytest.mark.promise("P-281")
def test_a_page_that_asks_for_a_secret_gets_it_without_clawhive_and_not_through_it(tmp_path):
    page = tmp_path / "page.html"
    command = [sys.executable, str(EXAMPLE / "demo.py"), str(page)]
    env = {name: value for name, value in os.environ.items() if name != "CLAWHIVE_RUN"}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    without, through = done.stdout.split("== The same with ClawHive")
    assert "attached .env: API_KEY=not-a-real-key-7f3a" in without
    assert "not-a-real-key" not in through
    assert "denied: `mcp.desk.send_mail`" in through
    assert "now deny" in through
    mails = re.findall(r"^mail to .*", through, re.MULTILINE)
    assert set(mails) == {"mail to ana@example.com: Garden chairs"}
    shown = [*told(EXAMPLE / "README.md"), *told(ROOT / "README.md")]
    assert shown
    lines = {re.sub(r"/\S*/after/", "", line).strip() for line in done.stdout.splitlines()}
    missing = [line for line in shown if not any(line in each for each in lines)]
    assert missing == []
    html = page.read_text("utf-8")
    assert "mcp.desk.send_mail" in html
    assert "not-a-real-key" not in html
