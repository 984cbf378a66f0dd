"""A user's script and the examples are clean for pyright."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("place", ["tests/docs/user_script.py", "examples"])
def test_a_users_code_is_clean_for_pyright(place, tmp_path):
    files = [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).glob("*.py"))
    for path in files:
        shutil.copy(path, tmp_path)
    settings = {"extraPaths": [str(ROOT / "src")], "typeCheckingMode": "basic"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    words = [str(Path(sys.executable).with_name("pyright")), "-p", str(tmp_path), "--pythonpath", sys.executable]
    done = subprocess.run([*words, "--outputjson"], capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(files)
    assert not [(d["range"]["start"]["line"] + 1, d["message"]) for d in found["generalDiagnostics"]]
