"""Commands do without pandas until somebody asks for it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from situ.core.pandas_later import import_pandas_later
import_pandas_later()
import pyarrow as pa
import situ.cli.app, situ.cli.site
assert pa.array(["a", None]).null_count == 1
assert "pandas" not in sys.modules, "somebody imports it"
frame = pa.table({"n": [1, 2]}).to_pandas()
assert pa.table(frame).to_pydict() == {"n": [1, 2]} == pa.Table.from_pandas(frame).to_pydict()
import pandas
assert pa.array(pandas.Series([1.0, None])).null_count == 1
import_pandas_later()
assert sys.modules["pandas"] is pandas
"""


def test_pandas_is_imported_when_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
