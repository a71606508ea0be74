import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from benchorch.pages.templates import SizeBudget, templates


@pytest.fixture
def render(tmp_path):
    def rendered(source, **values):
        (tmp_path / "x.html.j2").write_text(source)
        return templates(tmp_path).get_template("x.html.j2").render(**values)

    return rendered


def test_names_are_escaped_and_lose_characters_that_no_file_can_have(render):
    assert render('<a b="{{ name }}">', name="<\"'&\x00\ud800>") == (
        '<a b="&lt;&#34;&#39;&amp;\ufffd\ufffd&gt;">'
    )


def test_data_of_a_script_has_no_markup(render):
    assert render("{{ data | json }}", data=["</script>"]) == '["\\u003c/script\\u003e"]'


def test_an_unknown_name_is_an_error(render):
    with pytest.raises(UndefinedError):
        render("{{ nobody }}")


def test_a_page_allows_its_own_style_and_script_only(render):
    page = render('{% extends "page.html.j2" %}', title="t", style="a{}", script="1")
    assert "default-src 'none'; script-src 'sha256-" in page
    assert "<style>a{}</style>" in page
    assert "script-src" not in render('{% extends "page.html.j2" %}', title="t", style="a{}")


def test_a_budget_ends_with_the_first_part_that_does_not_fit():
    budget = SizeBudget(5)
    assert [budget.take(Markup(part)) for part in ("abc", "äa", "b")] == ["abc", "", ""]
    assert (budget.left_bytes, budget.left_out) == (2, 2)
