"""The whole page without a browser: `app.py` run by Streamlit's own test harness."""

import pytest

pytest.register_assert_rewrite("tests.app.page")
