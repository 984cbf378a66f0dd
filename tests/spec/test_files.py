"""A user's file finds the files beside it, in its own world: nothing leaks, nothing is stale, errors name the line."""

import json
import sys

import pytest

from recollect.spec import SpecError
from recollect.spec.source import load, reference, source_digest

FORMS = {
    "import helper": "helper.value",
    "import helper as h": "h.value",
    "from helper import value": "value",
    "from helper import value as v": "v",
    "from helper import *": "value",
    "from .helper import value": "value",
    "from . import helper": "helper.value",
    "import pack.sub": "pack.sub.value",
    "import pack.sub as s": "s.value",
    "from pack import sub": "sub.value",
    "from pack.sub import value": "value",
    "from .pack.sub import value": "value",
    "import json, helper, os.path": "helper.value",
    "import plain.sub": "plain.sub.value",
    "from plain.sub import value": "value",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_import_finds_what_lies_beside(write, tmp_path, form):
    write(helper="value = 7", pack__="", pack__sub="value = 7", plain__sub="value = 7")
    write(mine=f"{form}\nclass Mine:\n    value = {FORMS[form]}\n")
    before = [*sys.path]
    assert load(f"{tmp_path}/mine.py:Mine").value == 7
    assert sys.path == before
    assert not {"helper", "pack", "plain", "mine"} & sys.modules.keys()


@pytest.mark.parametrize("form", [form for form in FORMS if "*" not in form])
def test_imports_inside_functions_work_when_they_are_called(write, tmp_path, form):
    write(helper="value = 7", pack__="", pack__sub="value = 7", plain__sub="value = 7")
    write(mine=f"class Mine:\n    def value(self):\n        {form}\n        return {FORMS[form]}\n")
    found = load(f"{tmp_path}/mine.py:Mine")
    assert found().value() == 7


def test_siblings_import_each_other(write, tmp_path):
    write(
        mine="import even\nclass Mine:\n    is_even = even.is_even\n",
        even="def is_even(n):\n    return n == 0 or odd.is_odd(n - 1)\nimport odd\n",
        odd="from even import is_even\ndef is_odd(n):\n    return n > 0 and is_even(n - 1)\n",
    )
    found = load(f"{tmp_path}/mine.py:Mine")
    assert found.is_even(4)
    assert not found.is_even(5)


def test_packages_import_what_lies_beside_the_file_and_above_them(write, tmp_path):
    write(
        mine="from pack.deep.low import far\nfrom pack.wide.low import near\nclass Mine:\n    sum = far + near\n",
        helper="base = 1",
        pack__="from helper import base",
        pack__deep__="",
        pack__deep__low="from .. import base\nfrom ...helper import base as again\nfar = base + again\n",
        pack__wide__low="import helper\nnear = helper.base\n",
    )
    assert load(f"{tmp_path}/mine.py:Mine").sum == 3


def test_files_of_one_name_in_two_folders_do_not_meet(write, tmp_path):
    for number in (1, 2):
        write(
            tmp_path / str(number),
            mine="import helper\nclass Mine:\n    value = helper.value\n",
            helper=f"value = {number}",
        )
    one, two = (load(f"{tmp_path}/{number}/mine.py:Mine") for number in (1, 2))
    assert (one.value, two.value) == (1, 2)
    assert load(f"{tmp_path}/1/mine.py:Mine") is one


def test_equal_files_in_two_folders_are_two_classes(write, tmp_path):
    for folder in ("a", "b"):
        write(folder=folder, mine="class Mine: ...")
    first, second = (load(f"{tmp_path}/{folder}/mine.py:Mine") for folder in ("a", "b"))
    assert reference(first) == f"{tmp_path}/a/mine.py:Mine"
    assert reference(second) == f"{tmp_path}/b/mine.py:Mine"


def test_an_edited_sibling_is_loaded_anew_and_the_old_class_stays_what_it_was(write, tmp_path):
    late = "    def late(self):\n        import pack.later\n        return pack.later.value\n"
    write(mine=f"import helper\nclass Mine:\n    value = helper.value\n{late}", helper="value = 1")
    write(pack__="", pack__later="value = 1")
    old = load(f"{tmp_path}/mine.py:Mine")
    digest = source_digest(old)
    write(helper="value = 2", pack__later="value = 2")  # as long as before, within the same second
    new = load(f"{tmp_path}/mine.py:Mine")
    assert (old.value, new.value) == (1, 2)
    assert (old().late(), new().late()) == (1, 2), "an import that comes late finds the file of its class"
    assert source_digest(old) == digest != source_digest(new)


def test_a_sibling_that_comes_later_is_seen(write, tmp_path):
    write(
        mine="class Mine:\n    try:\n        from fast import value\n    except ImportError:\n        value = 'slow'\n",
    )
    slow = load(f"{tmp_path}/mine.py:Mine")
    write(fast="value = 'fast'")
    fast = load(f"{tmp_path}/mine.py:Mine")
    assert (slow.value, fast.value) == ("slow", "fast")
    assert source_digest(slow) != source_digest(fast)


def test_files_of_a_folder_share_what_they_import(write, tmp_path):
    """A sibling that registers something, such as a custom op, does so once."""
    for name in ("one", "two"):
        write(**{name: "import helper\nclass Mine:\n    shared = helper.shared\n"})
    write(helper="shared = object()")
    assert load(f"{tmp_path}/one.py:Mine").shared is load(f"{tmp_path}/two.py:Mine").shared


def test_a_sibling_comes_before_the_library_of_its_name_and_only_for_its_folder(write, tmp_path):
    write(mine="import json\nclass Mine:\n    found = json\n", json="mine = True")
    assert load(f"{tmp_path}/mine.py:Mine").found.mine
    import json as again

    assert again is json
    assert not hasattr(json, "mine")


def test_a_folder_of_data_does_not_hide_a_library(write, tmp_path):
    (tmp_path / "json").mkdir()
    write(mine="import json\nclass Mine:\n    found = json\n")
    assert load(f"{tmp_path}/mine.py:Mine").found is json


def test_recollect_is_never_a_sibling(write, tmp_path):
    write(
        mine="from recollect.spec import Spec\nclass Mine(Spec): ...\n",
        recollect__="",
        recollect__spec="Spec = int",
    )
    from recollect.spec import Spec

    assert issubclass(load(f"{tmp_path}/mine.py:Mine"), Spec)


@pytest.mark.parametrize("name", ["my-mixer", "2024.mixer", "Mine-0a1b"])
def test_any_name_of_a_file_will_do(write, tmp_path, name):
    write(helper="value = 3")
    (tmp_path / f"{name}.py").write_text("from helper import value\nclass Mine:\n    value = value\n")
    found = load(f"{tmp_path}/{name}.py:Mine")
    assert found.value == 3
    assert reference(found) == f"{tmp_path}/{name}.py:Mine"


def test_a_class_inside_a_class_is_found(write, tmp_path):
    write(mine="class Outer:\n    class Inner: ...\n")
    found = load(f"{tmp_path}/mine.py:Outer.Inner")
    assert reference(found) == f"{tmp_path}/mine.py:Outer.Inner"


ERRORS = {
    "1 / 0": r"mine\.py: importing it raised ZeroDivisionError: division by zero \(mine\.py:1\)",
    "\n\nx = = 1": r"mine\.py: importing it raised SyntaxError: invalid syntax \(mine\.py:3\)",
    "import sys\nsys.exit('no')": r"raised SystemExit: no \(mine\.py:2\)",
    "import broken": r"mine\.py: importing it raised KeyError: 'far' \(deep\.py:2\)",
    "import wrong": r"mine\.py: importing it raised SyntaxError: .* \(wrong\.py:2\)",
    "from helper import absent": r"raised ImportError: cannot import name 'absent' from 'helper' .* \(mine\.py:1\)",
    "import helper.absent": r"raised ImportError: cannot import name 'absent' from 'helper' .* \(mine\.py:1\)",
    "import no_such_thing": r"raised ModuleNotFoundError: No module named 'no_such_thing' \(mine\.py:1\)",
    "import importlib\nimportlib.import_module('helper')": r"'helper' .*; helper lies beside it, where only import",
    "import json\njson.loads('{')": r"raised JSONDecodeError: .* \(mine\.py:2\)",
}


@pytest.mark.parametrize("source", ERRORS)
def test_an_error_names_the_file_what_was_raised_and_the_line(write, tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    write(mine=source, helper="", broken="from deep import fall\nfall()", wrong="\nif:\n")
    write(deep="def fall():\n    raise KeyError('far')\n")
    with pytest.raises(SpecError, match=ERRORS[source]) as caught:
        load("mine.py:Mine")
    assert "recollect_file" not in str(caught.value)
    write(mine="class Mine: ...")
    assert load("mine.py:Mine"), "what failed is tried again"


def test_a_module_that_raises_names_the_line(write, tmp_path, monkeypatch):
    write(raising_module="\n1 / 0\n", lacking_module="import no_such_thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        SpecError, match=r"importing module 'raising_module' raised ZeroDivisionError: .*raising_module\.py:2"
    ):
        load("raising_module:Mine")
    with pytest.raises(
        SpecError, match=r"raised ModuleNotFoundError: No module named 'no_such_thing' \(.*lacking_module\.py:1"
    ):
        load("lacking_module:Mine")
    with pytest.raises(
        SpecError, match=r"cannot import module 'absent_package\.sub': No module named 'absent_package'"
    ):
        load("absent_package.sub:Mine")
