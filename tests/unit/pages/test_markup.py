import json

from hypothesis import given
from hypothesis import strategies as st

from benchorch.pages.markup import json_in_script, plain, shortened


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(-(2**53), 2**53))))
def test_json_in_a_script_has_no_markup_and_means_the_same(value):
    text = json_in_script(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


def test_json_holds_names_that_no_encoding_has():
    assert json.loads(json_in_script({"a\ud800": ["\udfff"]})) == {"a\ufffd": ["\ufffd"]}


def test_characters_that_no_file_can_hold_are_replaced():
    assert plain("a\x00b\ud800c\x1b") == "a\ufffdb\ufffdc\ufffd"
    plain("a\ud800").encode()


@given(st.text(max_size=80), st.integers(3, 40))
def test_a_shortened_text_has_its_ends_and_at_most_so_many_characters(text, most):
    short = shortened(text, most)
    whole = " ".join(plain(text).split())
    assert len(short) <= most
    assert short == whole if len(whole) <= most else whole.startswith(short.split("…")[0])
