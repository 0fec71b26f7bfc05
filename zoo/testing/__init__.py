"""The conformance kit: whether an attention kind or a positional scheme keeps the contracts that everything leans on.

    from zoo.testing import check_attention

    def test_my_kind():
        report = check_attention("my_kind", sharpness=2.0)
        assert report, report

``zoo check my_kind --plugin=my_kind.py`` prints the same table. A property that a kind does not claim in its
``supports`` is reported as such, not as a failure.
"""

from zoo.testing.attention import check_attention
from zoo.testing.position import check_position
from zoo.testing.report import Report, Result

__all__ = ["Report", "Result", "check_attention", "check_position"]
