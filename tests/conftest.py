"""What every test runs under: hypothesis without deadlines (a first call may compile), and the same examples in CI each time."""

import os

import hypothesis
import numpy as np
import pytest

pytest.register_assert_rewrite("tests.browser.settled")  # a failed look at the page says what it saw

hypothesis.settings.register_profile("local", deadline=None, max_examples=60)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=60, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

np.set_printoptions(legacy="1.25")  # in doctests a NumPy scalar reads 9.0, not np.float64(9.0)
