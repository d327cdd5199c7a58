"""What needs no network: what can be wrong, and what the stubs say."""

import ast
import importlib.util
import inspect
import os
import pathlib
import pickle
import subprocess
import sys

import ethbcast
import numpy as np
import pytest

STUBS = ast.parse(pathlib.Path(ethbcast.__file__).with_name("_ethbcast.pyi").read_text())


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [one.arg for one in named if one.arg != "self"] + ([given.kwarg.arg] if given.kwarg else [])


def test_the_stubs_have_what_the_module_has():
    classes = {one.name: one for one in STUBS.body if isinstance(one, ast.ClassDef) and not one.name.startswith("_")}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [(ethbcast, one) for one in STUBS.body if isinstance(one, kinds)]
    for name, stub in classes.items():
        own = [one for one in stub.body if isinstance(one, kinds)]
        public = {one for one in vars(getattr(ethbcast, name)) if not one.startswith("_")}
        assert {one.name for one in own if not one.name.startswith("_")} == public
        methods = [one for one in own if not one.decorator_list or ast.unparse(one.decorator_list[0]) == "staticmethod"]
        functions += [(getattr(ethbcast, name), one) for one in methods if not one.name.startswith("_")]
    assert {one.name for owner, one in functions if owner is ethbcast} == {"recv", "send"}
    for owner, stub in functions:
        signature = inspect.signature(getattr(owner, stub.name))
        assert [one for one in signature.parameters if one != "self"] == parameters(stub), stub.name


def test_the_stubs_name_all_options():
    options = [one for one in STUBS.body if isinstance(one, ast.ClassDef) and one.name.endswith("Options")]
    named = {line.target.id for one in options for line in one.body if isinstance(line, ast.AnnAssign)}
    with pytest.raises(TypeError) as raised:
        ethbcast.recv("group", colour="red")
    assert set(str(raised.value).split(": use one of ")[1].split(", ")) == named


def test_the_stubs_are_as_a_type_checker_wants_them():
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("there is no mypy")
    package = str(pathlib.Path(ethbcast.__file__).parent)
    typed = str(pathlib.Path(__file__).with_name("typed.py"))
    for words in (["mypy", "--strict", typed], ["mypy.stubtest", "--ignore-disjoint-bases", "ethbcast._ethbcast"]):
        environment = {**os.environ, "MYPYPATH": str(pathlib.Path(package).parent)}
        ended = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, env=environment)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_an_error_has_status_and_sentence():
    with pytest.raises(ethbcast.Error, match="no interface nosuch") as raised:
        ethbcast.Communicator.join("group", 2, interface="nosuch")
    assert raised.value.status is ethbcast.Status.SYSTEM and raised.value.status == 4
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.status, str(again), again.failed) == (raised.value.status, str(raised.value), {})


@pytest.mark.parametrize(
    "options, said",
    [
        ({"max_wait": -1}, "give seconds"),
        ({"via": "zigzag"}, "via cannot be"),
        ({"probe": "perhaps"}, "probe cannot be"),
        ({"topology": pathlib.Path("/nonexistent")}, "nonexistent"),
        ({"join_within": 1.0}, "is for communicators"),
        ({"hosts": "^/nonexistent"}, "cannot read the list of hosts /nonexistent"),
        ({"hosts": ["n1", "@rack"]}, "a file of them with"),
        ({"rate": "1kbit"}, "rate cannot be"),
        ({"dead_after": 99}, "0.05 to 30 seconds"),
        ({"on_slow": "hurry"}, "demote, wait or evict"),
    ],
)
def test_an_option_that_cannot_be_is_named(options, said):
    with pytest.raises(ethbcast.Error, match=said) as raised:
        ethbcast.recv("group", **options)
    assert raised.value.status is ethbcast.Status.USAGE


def test_nobody_speaks_without_the_key_of_this_host_unless_that_is_meant(monkeypatch):
    monkeypatch.setenv("ETHBCAST_KEY_FILE", "/nonexistent")
    for speak in (
        lambda **options: ethbcast.recv("group", **options),
        lambda **options: ethbcast.send(b"x", "group", receivers=1, **options),
        lambda **options: ethbcast.Communicator.join("group", 2, **options),
    ):
        with pytest.raises(ethbcast.Error, match="E-UNKEYED.*with key=, or set unkeyed= if") as raised:
            speak()
        assert raised.value.status is ethbcast.Status.USAGE
        with pytest.raises(ethbcast.Error, match="no interface nosuch"):
            speak(unkeyed=True, interface="nosuch")
    with pytest.raises(ethbcast.Error, match="/nonexistent: No such file"):
        ethbcast.recv("group", key="auto")


def test_sentences_name_arguments_and_no_options_of_the_program(tmp_path):
    with pytest.raises(ethbcast.Error, match="with interface=") as raised:
        ethbcast.Communicator.join("group", 2, interface="nosuch")
    assert " -" not in str(raised.value)
    with pytest.raises(ethbcast.Error, match="the program's --devices"):
        os.mkfifo(tmp_path / "pipe")
        ethbcast.send(tmp_path, "group", receivers=1, interface="nosuch")


def test_only_memory_without_gaps_is_sent():
    array = np.arange(100.0).reshape(10, 10)
    for gaps in (array[::2, :1], array.T, memoryview(b"every other")[::2]):
        with pytest.raises(BufferError, match="not contiguous"):
            ethbcast.send(gaps, "group", receivers=1)
    with pytest.raises(TypeError, match="Python objects"):
        ethbcast.send(np.array([object()]), "group", receivers=1)
    with pytest.raises(TypeError):
        ethbcast.send([1, 2, 3], "group", receivers=1)
    fields = np.zeros(2, dtype=[("One", "<i4"), ("Other", "<f8")])
    with pytest.raises(ethbcast.Error, match="no interface nosuch"):
        ethbcast.send(fields, "group", receivers=1, interface="nosuch")


def test_only_memory_that_can_be_written_is_received_into():
    frozen = np.zeros(10)
    frozen.flags.writeable = False
    for fixed in (frozen, memoryview(b"fixed")):
        with pytest.raises(BufferError, match="read-only"):
            ethbcast.recv("group", fixed)


def test_an_earlier_version_is_in_memory(tmp_path):
    for into in (None, tmp_path / "file"):
        with pytest.raises(ValueError, match="earlier version"):
            ethbcast.recv("group", into, delta=True)


def test_files_that_are_there_are_kept(tmp_path):
    there = tmp_path / "there"
    there.write_text("kept")
    with pytest.raises(ethbcast.Error, match="replace=True") as raised:
        ethbcast.recv("group", there, interface="nosuch")
    assert raised.value.status is ethbcast.Status.SYSTEM and there.read_text() == "kept"
    with pytest.raises(ethbcast.Error, match="missing"):
        ethbcast.send(tmp_path / "missing", "group", receivers=1, interface="nosuch")
    assert [one.name for one in tmp_path.iterdir()] == ["there"]


def test_a_communicator_is_joined_and_not_made():
    with pytest.raises(TypeError):
        ethbcast.Communicator()
    with pytest.raises(OverflowError):
        ethbcast.Communicator.join("group", 70000)
