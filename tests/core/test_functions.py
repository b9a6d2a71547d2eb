"""The registry of users' functions."""

import pytest

from situ.core.errors import QueryError
from situ.core.functions import Function, Functions, default, function
from situ.core.types import DOUBLE, DURATION, STRING, Decimal, Row


def face_detect(video: dict[str, object]) -> object:
    return video["frame"]


def other(x: object) -> object:
    return x


def test_a_function_is_known_by_name_and_path() -> None:
    functions = Functions()
    registered = functions.register(face_detect, returns="string", name="FaceDetect")
    assert registered == Function("FaceDetect", STRING, __name__, "face_detect")
    assert functions.lookup("FaceDetect") == registered
    assert functions.lookup("face_detect") is None
    assert functions.callable_of("FaceDetect")({"frame": "x"}) == "x"
    assert functions.names == ("FaceDetect",)


def test_the_decorator_leaves_the_callable_as_it_is() -> None:
    functions = Functions()
    assert functions.function(returns="int")(other) is other
    assert functions.lookup("other") is not None


def test_the_global_decorator_fills_the_default_registry() -> None:
    assert function(returns=DOUBLE, name="test_functions_other")(other) is other
    registered = default.lookup("test_functions_other")
    assert registered is not None
    assert registered.returns == DOUBLE


@pytest.mark.parametrize(
    ("text", "type_"),
    [("Double", DOUBLE), ("decimal(10, 2)", Decimal(10, 2)), ("DECIMAL( 5,0 )", Decimal(5, 0)), ("duration", DURATION)],
)
def test_return_types_are_written_as_in_the_language(text: str, type_: object) -> None:
    assert Functions().register(other, returns=text).returns == type_


def test_an_unknown_return_type_is_refused() -> None:
    with pytest.raises(QueryError, match="Did you mean 'string'"):
        Functions().register(other, returns="strnig")
    with pytest.raises(QueryError, match="not a whole event"):
        Functions().register(other, returns=Row("A"))


@pytest.mark.parametrize("text", ["decimal(39, 2)", "decimal(5, 6)", "decimal(0, 0)"])
def test_a_decimal_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="from 1 to 38"):
        Functions().register(other, returns=text)


def test_the_same_function_again_replaces_it() -> None:
    functions = Functions()
    functions.register(other, returns="int")
    functions.register(other, returns="double")
    registered = functions.lookup("other")
    assert registered is not None
    assert registered.returns == DOUBLE


def test_another_function_of_the_same_name_is_refused() -> None:
    functions = Functions()
    functions.register(other, returns="int")
    with pytest.raises(QueryError, match=r"already registered: .*:other") as error:
        functions.register(face_detect, returns="int", name="other")
    assert "name=" in error.value.remedy


@pytest.mark.parametrize("name", ["abs", "Count", "IF", "time"])
def test_words_of_the_language_are_refused(name: str) -> None:
    with pytest.raises(QueryError, match="the language has a word"):
        Functions().register(other, returns="int", name=name)


def test_a_missing_callable_names_what_is_known() -> None:
    functions = Functions()
    functions.register(other, returns="int")
    with pytest.raises(QueryError, match="Did you mean 'other'"):
        functions.callable_of("othr")


def test_load_imports_the_module(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "situ_cameras_for_test.py"
    module.write_text(
        "from situ.core.functions import function\n"
        "@function(returns='int', name='FramesForTest')\n"
        "def frames(video):\n"
        "    return 3\n"
        "def plain(video):\n"
        "    return 4\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    loaded = default.load("situ_cameras_for_test:frames")
    assert loaded.name == "FramesForTest"
    assert default.callable_of("FramesForTest")({}) == 3
    with pytest.raises(QueryError, match="registers no function 'plain'"):
        default.load("situ_cameras_for_test:plain")


@pytest.mark.parametrize(
    ("path", "cause"), [("frames", "names no function"), ("no_such_module_at_all:f", "cannot be imported")]
)
def test_a_path_that_leads_nowhere_is_refused(path: str, cause: str) -> None:
    with pytest.raises(QueryError, match=cause):
        Functions().load(path)
