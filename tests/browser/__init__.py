"""The real page in a real browser: server, canvas, figures, keyboard, address and theme."""

import pytest

pytest.register_assert_rewrite("tests.browser.reader")
