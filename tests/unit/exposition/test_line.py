"""One line at a time: what is a sample, what is lost, what is no sample."""

import pytest

from monitor.exposition.line import finite, parse_head, parse_tail

HEADS = {
    "a bare name": ("up 1", "up", {}, " 1"),
    "a name with a tab": ("up\t1", "up", {}, "1"),
    "labels": ('a:b{x="1",y="2"} 3', "a:b", {"x": "1", "y": "2"}, " 3"),
    "a trailing comma": ('a{x="1",} 3', "a", {"x": "1"}, " 3"),
    "empty braces": ("a{} 3", "a", {}, " 3"),
    "blanks everywhere": ('  a { x = "1" , y = "2" } 3', "a", {"x": "1", "y": "2"}, " 3"),
    "a blank in a value": ('a{m="org/my model"} 3', "a", {"m": "org/my model"}, " 3"),
    "a comma and braces in a value": ('a{m="x,y={1}"} 3', "a", {"m": "x,y={1}"}, " 3"),
    "a quote and a backslash in a value": (r'a{m="q\"\\n"} 3', "a", {"m": 'q"\\n'}, " 3"),
    "a line feed in a value": (r'a{m="x\ny"} 3', "a", {"m": "x\ny"}, " 3"),
    "an unknown escape stays": (r'a{m="\d"} 3', "a", {"m": r"\d"}, " 3"),
    "a hash in a value": ('a{m="x # y"} 3', "a", {"m": "x # y"}, " 3"),
    "UTF-8 in a value": ('a{m="模型"} 3', "a", {"m": "模型"}, " 3"),
    "no blank before the value": ('a{m="x"}3', "a", {"m": "x"}, "3"),
    "a quoted name": ('{"my.name",m="x"} 3', "my.name", {"m": "x"}, " 3"),
    "a quoted label name": ('a{"my.label"="x"} 3', "a", {"my.label": "x"}, " 3"),
}


@pytest.mark.parametrize(("text", "name", "labels", "rest"), HEADS.values(), ids=HEADS.keys())
def test_heads(text: str, name: str, labels: dict[str, str], rest: str) -> None:
    head = parse_head(text)
    assert (head.name, head.labels) == (name, labels)
    assert text[head.end :].lstrip() == rest.lstrip()


NO_HEADS = {
    "a label cut off": 'vllm:x_total{engine="0",model_na',
    "a value cut off": 'vllm:x_total{engine="0',
    "no closing brace": 'a{m="x" 3',
    "no quotes": "a{m=x} 3",
    "a name only": "a",
    "a dash in a name": "my-name 3",
    "a label twice": 'a{m="x",m="y"} 3',
    "two commas": 'a{m="x",,n="y"} 3',
    "two names": 'a{"b",m="x"} 3',
    "a number first": "1a 3",
    "no name at all": '{m="x"} 3',
}


@pytest.mark.parametrize("text", NO_HEADS.values(), ids=NO_HEADS.keys())
def test_what_is_no_sample_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|twice"):
        parse_head(text)


TAILS = {
    "a whole number": (b" 3", 3.0, None),
    "an exponent": (b" 1.7e+09", 1.7e9, None),
    "a C exponent of three digits": (b" 1.1701968896e+010", 11701968896.0, None),
    "a timestamp": (b" 3 1788616077000", 3.0, 1788616077000.0),
    "an exemplar": (b' 3 # {trace_id="x"} 0.5 1.2', 3.0, None),
    "a timestamp and an exemplar": (b' 3 1788616077.5 # {trace_id="x"} 0.5', 3.0, 1788616077.5),
    "tabs": (b"\t3\t4", 3.0, 4.0),
    "a carriage return": (b" 3\r", 3.0, None),
    "NaN": (b" NaN", None, None),
    "C's -nan": (b" -nan", None, None),
    "C's -nan(ind)": (b" -nan(ind)", None, None),
    "an infinity": (b" +Inf", None, None),
    "C's inf": (b" inf", None, None),
    "an underscore": (b" 1_000", None, None),
    "a word": (b" null", None, None),
}


@pytest.mark.parametrize(("tail", "value", "timestamp"), TAILS.values(), ids=TAILS.keys())
def test_tails(tail: bytes, value: float | None, timestamp: float | None) -> None:
    assert parse_tail(tail) == (value, timestamp)


@pytest.mark.parametrize("tail", [b"", b" ", b" 1 2 3", b" 1 x"])
def test_what_is_no_value_is_refused(tail: bytes) -> None:
    with pytest.raises(ValueError, match="expected a"):
        parse_tail(tail)


def test_numbers_too_large_for_a_float_are_lost() -> None:
    assert finite(b"1e999") is None
