from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.dag import Class
from benchorch.trace.report.colors import OF_CLASS, RAMP, contrast, heat, text_on


@given(st.floats(-1, 2))
def test_text_on_every_shade_can_be_read(share):
    shade = heat(share)
    assert contrast(shade, text_on(shade)) >= 4.5


def test_the_ramp_begins_and_ends_where_its_legend_does_and_darkens():
    assert (heat(0), heat(1)) == (RAMP[0][1], RAMP[-1][1])
    shades = [contrast("#ffffff", heat(step / 20)) for step in range(21)]
    assert shades == sorted(shades)


def test_every_class_has_a_color_of_its_own_on_which_text_can_be_read():
    assert set(OF_CLASS) == set(Class)
    assert len(set(OF_CLASS.values())) == len(Class)
    assert min(contrast(color, text_on(color)) for color in OF_CLASS.values()) >= 4.5
